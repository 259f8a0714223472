"""How the pre-tokenizers that GGUF files only name are written in a `tokenizer.json`.

A GGUF file says `tokenizer.ggml.pre = "qwen2"`; the splitting rules behind the name are those of
the models that llama.cpp's converter recognises by it. Only names whose published tokenizer.json
is known to be exactly this are listed; for any other name the user passes `--tokenizer`.
"""

from dataclasses import dataclass, field
from typing import Any

# What we write into a GGUF file when the rules have no name of their own. A reader that builds
# its tokenizer from GGUF metadata alone must not guess.
UNNAMED = "see-tokenizer-json"

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class PreTokenizer:
    """The parts of a tokenizer.json that a pre-tokenizer name stands for."""

    pre_tokenizer: dict[str, Any]
    normalizer: dict[str, Any] | None = None
    ignore_merges: bool = False
    names: tuple[str, ...] = field(default=(), compare=False)


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": use_regex,
    }


def _split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def _sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


_DIGITS = {"type": "Digits", "individual_digits": True}

_TABLE = (
    PreTokenizer(_byte_level(use_regex=True), names=("gpt-2",)),
    PreTokenizer(
        _sequence(
            _split(rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}"), _byte_level(use_regex=False)
        ),
        normalizer={"type": "NFC"},
        names=("qwen2",),
    ),
    PreTokenizer(
        _sequence(
            _split(rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"),
            _byte_level(use_regex=False),
        ),
        ignore_merges=True,
        names=("llama-bpe", "llama3", "llama-v3"),
    ),
    PreTokenizer(_sequence(_DIGITS, _byte_level(use_regex=True)), names=("starcoder", "refact")),
)
BY_NAME = {name: entry for entry in _TABLE for name in entry.names}


def name_of(document: dict[str, Any]) -> str:
    """The GGUF name of a tokenizer document's splitting rules, or `UNNAMED`."""
    rules = PreTokenizer(
        _comparable(document.get("pre_tokenizer")),
        document.get("normalizer"),
        bool(document["model"].get("ignore_merges")),
    )
    return next((entry.names[0] for entry in _TABLE if entry == rules), UNNAMED)


def _comparable(pre_tokenizer: dict[str, Any] | None) -> dict[str, Any]:
    """The rules without `trim_offsets`, which concerns reported offsets and never the ids."""
    copied = dict(pre_tokenizer or {})
    if copied.get("type") == "ByteLevel":
        copied["trim_offsets"] = False
    if "pretokenizers" in copied:
        copied["pretokenizers"] = [_comparable(part) for part in copied["pretokenizers"]]
    return copied
