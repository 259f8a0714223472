"""The replica's reader of an engine manifest."""

import json
from pathlib import Path
from typing import Any

import pytest

from replica.manifest import ManifestError, read_manifest


def document() -> dict[str, Any]:
    return {
        "manifest_version": 1,
        "engine_digest": "sha256:abc",
        "architecture": {
            "layers": 6,
            "key_value_heads": 2,
            "head_dim": 64,
            "vocabulary_size": 8192,
        },
        "context_tokens": 1536,
        "reserved_salt_tokens": 8,
        "end_ids": [0],
        "control_ids": [0, 1],
        "newline_ids": [10, 11],
        "files": {"weights": {"path": "model.gguf", "bytes": 3}},
        "decoding": {"block_tokens": 32},
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "model.gguf").write_bytes(b"abc")
    (folder / "manifest.json").write_text(json.dumps(content))
    return folder


def test_a_manifest_is_read(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, document()))
    assert manifest.engine_digest == "sha256:abc"
    assert manifest.prompt_and_output_tokens_max == 1528
    assert manifest.newline_ids == {10, 11}
    assert manifest.weights == tmp_path / "model.gguf"
    assert manifest.block_bytes(4) == 2 * 6 * 2 * 64 * 4 * 32


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("manifest_version", 2, "must be 1, is 2"),
        ("context_tokens", "many", "context_tokens|many"),
        ("end_ids", None, "lacks or mistypes"),
        ("reserved_salt_tokens", 0, "at least 1"),
        ("context_tokens", 9, "must exceed reserved_salt_tokens by 2"),
        ("files", {"weights": {"path": "other.gguf", "bytes": 3}}, "other.gguf is missing"),
        ("files", {"weights": {"path": "model.gguf", "bytes": 4}}, "has 3 bytes, .* says 4"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    tmp_path: Path, field: str, value: object, words: str
) -> None:
    with pytest.raises(ManifestError, match=words):
        read_manifest(write(tmp_path, document() | {field: value}))


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    content = document()
    del content["newline_ids"]
    with pytest.raises(ManifestError, match="newline_ids"):
        read_manifest(write(tmp_path, content))


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"no manifest\.json"):
        read_manifest(tmp_path)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ManifestError, match="is not JSON"):
        read_manifest(tmp_path)
