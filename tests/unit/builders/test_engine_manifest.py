import json
from dataclasses import replace

import pytest

from builders.engine_build import build
from builders.engine_plan import REFERENCE_MODEL, BuildRequest
from builders.fim import FimTemplate
from builders.manifest import (
    EngineDescription,
    EngineFile,
    engine_digest,
    manifest_bytes,
    manifest_of,
)
from tests.unit.builders.test_rotary_rows import architecture

FILES = {
    "weights": EngineFile("model.gguf", 10, "aa"),
    "tokenizer": EngineFile("tokenizer.json", 5, "bb"),
}
DESCRIPTION = EngineDescription(
    name="tiny",
    origin="local",
    target="cpu",
    precision="f16",
    architecture=architecture("llama"),
    context_tokens=512,
    fim=FimTemplate("prefix_first", prefix_id=1, suffix_id=2, middle_id=3),
    end_ids=(0, 1, 2, 3),
    control_ids=(0, 1, 2, 3),
    newline_ids=(9, 17),
    block_tokens=32,
    tiers=("device",),
)
TOOLS = {"warmline-builder": "1", "gguf": "0", "tokenizers": "0"}


def test_the_manifest_has_exactly_the_documented_fields() -> None:
    document = manifest_of(DESCRIPTION, FILES, TOOLS)
    assert {**document, "engine_digest": ""} == {
        "manifest_version": 1,
        "name": "tiny",
        "engine_digest": "",
        "origin": "local",
        "target": "cpu",
        "precision": "f16",
        "architecture": {
            "family": "llama",
            "layers": 2,
            "hidden_size": 64,
            "attention_heads": 4,
            "key_value_heads": 2,
            "head_dim": 32,
            "vocabulary_size": 100,
        },
        "context_tokens": 512,
        "reserved_salt_tokens": 8,
        "fim": {
            "family": "prefix_first",
            "prefix_id": 1,
            "suffix_id": 2,
            "middle_id": 3,
            "pad_id": None,
            "file_separator_id": None,
            "repository_name_id": None,
        },
        "end_ids": [0, 1, 2, 3],
        "control_ids": [0, 1, 2, 3],
        "newline_ids": [9, 17],
        "files": {
            "weights": {"path": "model.gguf", "bytes": 10, "sha256": "aa"},
            "tokenizer": {"path": "tokenizer.json", "bytes": 5, "sha256": "bb"},
        },
        "decoding": {"block_tokens": 32, "tiers": [{"name": "device"}]},
        "tool_versions": TOOLS,
        "eval_run_id": "",
    }


def test_a_begin_token_is_named_only_for_families_that_need_it() -> None:
    with_begin = replace(DESCRIPTION, fim=replace(DESCRIPTION.fim, begin_id=7))
    assert manifest_of(with_begin, FILES, TOOLS)["fim"]["begin_id"] == 7


def test_the_stored_form_is_sorted_indented_utf8_and_ends_with_a_newline() -> None:
    document = manifest_of(replace(DESCRIPTION, name="z\u00fcg"), FILES, TOOLS)
    stored = manifest_bytes(document)
    assert stored == manifest_bytes(dict(reversed(document.items())))
    assert stored.startswith(b'{\n  "architecture": {\n')
    assert stored.endswith(b"\n}\n")
    assert "z\u00fcg".encode() in stored
    assert json.loads(stored) == document


def test_the_digest_covers_what_the_engine_answers_and_not_who_built_or_judged_it() -> None:
    document = manifest_of(DESCRIPTION, FILES, TOOLS)
    digest = document["engine_digest"]
    assert digest == engine_digest(document)
    assert digest.startswith("sha256:")
    assert len(digest) == len("sha256:") + 64
    for unseen in ({"tool_versions": {}}, {"eval_run_id": "run-1"}, {"engine_digest": "x"}):
        assert engine_digest({**document, **unseen}) == digest


@pytest.mark.parametrize("key", ["name", "precision", "context_tokens", "end_ids", "files", "fim"])
def test_the_digest_changes_with_every_field_that_matters(key: str) -> None:
    document = manifest_of(DESCRIPTION, FILES, TOOLS)
    assert engine_digest({**document, key: "changed"}) != document["engine_digest"]


def test_the_reference_model_becomes_the_same_bytes_in_any_folder(tmp_path) -> None:
    for name in ("one", "two"):
        build(BuildRequest(REFERENCE_MODEL, tmp_path / name))
    for file in ("model.gguf", "tokenizer.json", "manifest.json", "build.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_reference_manifest_says_what_the_models_card_says(tmp_path) -> None:
    manifest = build(BuildRequest(REFERENCE_MODEL, tmp_path / "engine")).manifest
    assert manifest == json.loads((tmp_path / "engine/manifest.json").read_text())
    assert (manifest["name"], manifest["origin"]) == ("warmline-reference", "reference")
    assert (manifest["precision"], manifest["context_tokens"]) == ("f16", 1536)
    assert manifest["fim"] == {
        "family": "suffix_first",
        "prefix_id": 1,
        "middle_id": 2,
        "suffix_id": 3,
        "pad_id": 4,
        "repository_name_id": 5,
        "file_separator_id": 6,
    }
    assert manifest["control_ids"] == manifest["end_ids"] == [0, 1, 2, 3, 4, 5, 6]
