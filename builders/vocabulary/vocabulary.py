"""The token list of a tokenizer, in the terms of GGUF metadata and of the manifest."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gguf import TokenType

from builders.refusals import BuildRefusedError

BYTE_LEVEL_NEWLINE = "\u010a"  # byte 0x0A in the alphabet of byte-level BPE
BYTE_FALLBACK_NEWLINE = "<0x0A>"
# Published checkpoints pad their embedding to a multiple of 64 to 512 rows; a larger gap means
# that tokenizer and weights belong to different models.
UNNAMED_ROWS_MAX = 1024


@dataclass(frozen=True)
class Vocabulary:
    """`tokens[i]` is the text of id i in the model's own alphabet; kinds are GGUF token types."""

    tokens: tuple[str, ...]
    kinds: tuple[TokenType, ...]
    merges: tuple[str, ...]
    byte_level: bool

    @cached_property
    def added_ids(self) -> dict[str, int]:
        """Id of each added token by its text.

        Ordinary tokens are left out: Qwen's vocabulary has "</s>" as plain HTML, for one.
        """
        added = {TokenType.CONTROL, TokenType.USER_DEFINED}
        return {text: i for i, text in enumerate(self.tokens) if self.kinds[i] in added}

    @cached_property
    def special_ids(self) -> tuple[int, ...]:
        """Ids of the tokens marked special."""
        return tuple(i for i, kind in enumerate(self.kinds) if kind is TokenType.CONTROL)

    @cached_property
    def newline_ids(self) -> tuple[int, ...]:
        """Ids of ordinary tokens whose bytes contain a newline."""
        return tuple(i for i in range(len(self.tokens)) if self._has_newline(i))

    def _has_newline(self, token_id: int) -> bool:
        kind, text = self.kinds[token_id], self.tokens[token_id]
        if kind is TokenType.NORMAL and self.byte_level:
            return BYTE_LEVEL_NEWLINE in text
        shown = kind in {TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.BYTE}
        return shown and ("\n" in text or text == BYTE_FALLBACK_NEWLINE)


def vocabulary_of(document: dict[str, Any], rows: int) -> Vocabulary:
    """The vocabulary of a checked tokenizer document, padded to the `rows` of the embedding.

    Raises `BuildRefusedError` when tokenizer and weights cannot belong together.
    """
    model = document["model"]
    added = {token["id"]: token for token in document["added_tokens"]}
    texts: dict[int, str] = {token_id: text for text, token_id in model["vocab"].items()}
    texts.update({token_id: token["content"] for token_id, token in added.items()})
    _check_size(texts, rows)
    byte_level = _is_byte_level(document)

    def kind(token_id: int) -> TokenType:
        if token_id not in texts:
            return TokenType.UNUSED
        if token_id in added:
            special = added[token_id]["special"]
            return TokenType.CONTROL if special else TokenType.USER_DEFINED
        return TokenType.NORMAL

    return Vocabulary(
        tokens=tuple(texts.get(i, f"[PAD{i}]") for i in range(rows)),
        kinds=tuple(kind(i) for i in range(rows)),
        merges=tuple(m if isinstance(m, str) else " ".join(m) for m in model["merges"]),
        byte_level=byte_level,
    )


def _check_size(texts: dict[int, str], rows: int) -> None:
    if max(texts) >= rows or rows - len(texts) > UNNAMED_ROWS_MAX:
        raise BuildRefusedError(
            f"The tokenizer has {len(texts)} tokens (highest id {max(texts)}), "
            f"the weights have {rows} rows.",
            f"every id below the row count, and at most {UNNAMED_ROWS_MAX} rows without a token.",
            "use the tokenizer and the weights of one and the same model.",
        )


def _is_byte_level(document: dict[str, Any]) -> bool:
    """Whether token texts are bytes in the GPT-2 alphabet; else they must be SentencePiece text."""
    decoder = document.get("decoder") or {}
    if "ByteLevel" in {part.get("type") for part in (decoder, *decoder.get("decoders", []))}:
        return True
    if document["model"].get("byte_fallback"):
        return False
    raise BuildRefusedError(
        f"The tokenizer's decoder is {decoder.get('type')!r} without byte fallback.",
        "byte-level BPE, or BPE with byte fallback.",
        "choose a checkpoint whose tokenizer can encode every file.",
    )
