"""Tokenizers rebuilt from GGUF metadata encode and decode as the ones they were taken from."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from builders.refusals import BuildRefusedError
from builders.vocabulary.gguf_metadata import tokenizer_from_metadata
from builders.vocabulary.pre_tokenizers import BY_NAME, UNNAMED, name_of
from builders.vocabulary.tokenizer_json import tokenizer_bytes, with_special_tokens
from builders.vocabulary.vocabulary import vocabulary_of
from tests.unit.builders.tiny_checkpoints import (
    QWEN_MARKERS,
    published_tokenizer,
    tokenizer_document,
)

ROWS = 704
TRICKY = (
    "",
    "a  b\n\n\tif x:\r\n  y = 1234567\n",
    "   \n   \n",
    "e\u0301 \u00e9 \ufb01 \u0661\u0662\u0663 \u4e2d\u6587 \U0001f389",
    "don't WE'LL I'm 's'S",
    "\x00\x01\ufffd\u00a0\u3000x",
    "<|fim_prefix|>x<|endoftext|> <|file_sep|>",
)


def rules_of(name: str) -> dict[str, Any]:
    entry = BY_NAME[name]
    return {"normalizer": entry.normalizer, "pre_tokenizer": entry.pre_tokenizer}


@pytest.fixture(scope="module", params=sorted(BY_NAME))
def original_and_rebuilt(request: pytest.FixtureRequest) -> tuple[Tokenizer, Tokenizer]:
    document = tokenizer_document(rules=rules_of(request.param))
    # Published converters keep the ids, so all markers are special on both sides.
    document = with_special_tokens(document, [t["id"] for t in document["added_tokens"]])
    document["model"]["ignore_merges"] = BY_NAME[request.param].ignore_merges
    rebuilt = tokenizer_from_metadata(published_tokenizer(document, ROWS, request.param))
    return Tokenizer.from_str(json.dumps(document)), Tokenizer.from_str(json.dumps(rebuilt))


@pytest.mark.parametrize("text", TRICKY)
def test_tricky_text_has_the_same_ids_and_comes_back(
    original_and_rebuilt: tuple[Tokenizer, Tokenizer], text: str
) -> None:
    original, rebuilt = original_and_rebuilt
    ids = original.encode(text).ids
    assert rebuilt.encode(text).ids == ids
    for skip in (True, False):
        decoded = original.decode(ids, skip_special_tokens=skip)
        assert rebuilt.decode(ids, skip_special_tokens=skip) == decoded


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_has_the_same_ids(
    original_and_rebuilt: tuple[Tokenizer, Tokenizer], text: str
) -> None:
    original, rebuilt = original_and_rebuilt
    assert rebuilt.encode(text).ids == original.encode(text).ids


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_rules_that_have_a_name_are_written_under_a_name_of_the_same_rules(name: str) -> None:
    rebuilt = tokenizer_from_metadata(published_tokenizer(tokenizer_document(), ROWS, name))
    assert BY_NAME[name_of(rebuilt)] == BY_NAME[name]


def test_rules_without_a_name_are_written_as_such_and_refused_when_read_back() -> None:
    split = {"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    own = {"type": "Sequence", "pretokenizers": [split, {**byte_level, "trim_offsets": True}]}
    document = {**tokenizer_document(), "pre_tokenizer": own}
    assert name_of(document) == UNNAMED
    with pytest.raises(BuildRefusedError, match=r"--tokenizer PATH"):
        tokenizer_from_metadata(published_tokenizer(document, ROWS, UNNAMED))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"tokenizer.ggml.model": "llama"}, "a tokenizer of model 'llama'"),
        ({"tokenizer.ggml.model": None}, "a tokenizer of model None"),
        ({"tokenizer.ggml.pre": "deepseek-llm"}, "the pre-tokenizer 'deepseek-llm'"),
        ({"tokenizer.ggml.merges": None}, "a tokenizer without tokenizer.ggml.merges"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "a token list with 1 repeated tokens"),
    ],
)
def test_metadata_that_cannot_be_turned_exactly_asks_for_a_tokenizer(
    change: dict[str, Any], found: str
) -> None:
    metadata = published_tokenizer(tokenizer_document(), ROWS, "qwen2") | change
    with pytest.raises(BuildRefusedError) as refusal:
        tokenizer_from_metadata(metadata)
    assert found in str(refusal.value)
    assert "--tokenizer PATH" in str(refusal.value)


def test_text_cannot_spell_a_marker_once_the_markers_are_special() -> None:
    document = tokenizer_document()
    controls = [token["id"] for token in document["added_tokens"]]
    open_tokenizer = Tokenizer.from_str(json.dumps(document))
    closed_tokenizer = Tokenizer.from_str(
        tokenizer_bytes(with_special_tokens(document, controls)).decode()
    )
    text = "".join(QWEN_MARKERS)
    for tokenizer in (open_tokenizer, closed_tokenizer):
        tokenizer.encode_special_tokens = True
    assert set(open_tokenizer.encode(text).ids) & set(controls)
    assert not set(closed_tokenizer.encode(text).ids) & set(controls)


def test_newline_tokens_are_exactly_those_whose_text_has_a_newline() -> None:
    document = tokenizer_document()
    tokenizer = Tokenizer.from_str(json.dumps(document))
    newline_ids = vocabulary_of(document, ROWS).newline_ids
    with_newline = [i for i in range(tokenizer.get_vocab_size()) if "\n" in tokenizer.decode([i])]
    assert list(newline_ids) == with_newline
    assert len(newline_ids) > 1


def test_newline_tokens_of_a_byte_fallback_tokenizer_are_the_byte_and_the_text() -> None:
    vocabulary = {"<unk>": 0, "<0x0A>": 1, "a": 2, "\n\n": 3, "\u010a": 4}
    model = {"type": "BPE", "byte_fallback": True, "vocab": vocabulary, "merges": []}
    document = {"model": model, "added_tokens": [], "decoder": {"type": "Fuse"}}
    assert vocabulary_of(document, 5).newline_ids == (1, 3)


@pytest.mark.parametrize("rows", [300, 5000])
def test_a_tokenizer_of_another_size_than_the_weights_is_refused(rows: int) -> None:
    with pytest.raises(BuildRefusedError, match=f"the weights have {rows} rows"):
        vocabulary_of(tokenizer_document(), rows)
