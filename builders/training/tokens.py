"""The shipped tokenizer, with text that spells a special token kept as text."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from builders.training.errors import TrainingError
from builders.training.examples import Marker, Piece, Special

SPECIAL_TOKENS: dict[Special, str] = {
    "end": "<|endoftext|>",
    "prefix": "<|fim_prefix|>",
    "middle": "<|fim_middle|>",
    "suffix": "<|fim_suffix|>",
    "file": "<|file_sep|>",
}


class PieceTokenizer:
    """Encodes examples piece by piece, as the prompt renderer does."""

    def __init__(self, tokenizer_file: Path) -> None:
        if not tokenizer_file.is_file():
            raise TrainingError(f"no tokenizer at {tokenizer_file}; name its folder with --model")
        self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self._tokenizer.encode_special_tokens = True
        self._special_ids: dict[Special, int] = {}
        for special, token in SPECIAL_TOKENS.items():
            identifier = self._tokenizer.token_to_id(token)
            if identifier is None:
                raise TrainingError(f"{tokenizer_file} lacks the special token {token}")
            self._special_ids[special] = identifier

    def special_id(self, special: Special) -> int:
        """The id of a special token."""
        return self._special_ids[special]

    def encode(self, pieces: Sequence[Piece]) -> list[int]:
        """Token ids of the pieces, one after another."""
        ids: list[int] = []
        for piece in pieces:
            if isinstance(piece, Marker):
                ids.append(self._special_ids[piece.special])
            elif piece:
                ids.extend(self._tokenizer.encode(piece, add_special_tokens=False).ids)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
