"""Turns the `tokenizer.ggml.*` metadata of a GGUF file into a `tokenizer.json` document.

Only where that is exact. A wrong tokenizer is worse than none: it splits text in a way that the
model has never seen, and nothing but the quality of the completions would say so.
"""

from collections.abc import Mapping
from typing import Any

from gguf import TokenType

from builders.refusals import BuildRefusedError
from builders.vocabulary.pre_tokenizers import BY_NAME
from builders.vocabulary.tokenizer_json import added_token

PREFIX = "tokenizer.ggml."
_SHOWN_AS_ADDED = {TokenType.CONTROL, TokenType.USER_DEFINED}
_WITHOUT_TEXT = {TokenType.UNUSED, TokenType.UNKNOWN}


def tokenizer_from_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The document; raises `BuildRefusedError`, which asks for `--tokenizer`, when not exact."""
    model, pre = metadata.get(PREFIX + "model"), metadata.get(PREFIX + "pre")
    if model != "gpt2":
        raise _refusal(f"a tokenizer of model {model!r}")
    rules = BY_NAME.get(str(pre))
    if rules is None:
        raise _refusal(f"a byte-level BPE tokenizer with the pre-tokenizer {pre!r}")
    tokens = _required(metadata, "tokens")
    kinds = [TokenType(kind) for kind in _required(metadata, "token_type")]
    if len(set(tokens)) != len(tokens):
        raise _refusal(f"a token list with {len(tokens) - len(set(tokens))} repeated tokens")
    vocabulary = {t: i for i, t in enumerate(tokens) if kinds[i] not in _WITHOUT_TEXT}
    added = [
        added_token(i, text, special=kinds[i] is TokenType.CONTROL)
        for i, text in enumerate(tokens)
        if kinds[i] in _SHOWN_AS_ADDED
    ]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": rules.normalizer,
        "pre_tokenizer": rules.pre_tokenizer,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": rules.ignore_merges,
            "vocab": vocabulary,
            "merges": [merge.split(" ", 1) for merge in _required(metadata, "merges")],
        },
    }


def _required(metadata: Mapping[str, Any], key: str) -> list[Any]:
    value = metadata.get(PREFIX + key)
    if not isinstance(value, list) or not value:
        raise _refusal(f"a tokenizer without {PREFIX}{key}")
    return value


def _refusal(found: str) -> BuildRefusedError:
    return BuildRefusedError(
        f"The GGUF file has {found}, which cannot be turned into a tokenizer.json exactly.",
        "byte-level BPE (tokenizer.ggml.model gpt2) with one of the pre-tokenizers "
        f"{', '.join(sorted(BY_NAME))}.",
        "pass the tokenizer.json of the same model with --tokenizer PATH.",
    )
