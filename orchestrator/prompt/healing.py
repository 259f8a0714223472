"""What of the prefix is held back where the cursor cuts a token. Pure.

Tokenizers join a space with the word behind it, and a prompt that ends with the space, or with half
of an identifier, ends with a token that the model has seldom seen there. The end that is held back
is for the model to write again and is matched in what it generates (`generation.healing`).

At most one blank or one token is held back, always of the cursor's line and never a line break: so
typing goes on appending, and the newline stop rule sees what it would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from orchestrator.prompt.parts import Encode
from orchestrator.prompt.recipe import HealingMode

_BLANKS = (" ", "\t")
_LINE_END_CHARS = 128
"""The last token of a line does not depend on more of it."""


class Joins(NamedTuple):
    """Blanks that this tokenizer joins with a word behind them: within a line, and in front of it.

    Only for these does it matter whether the prompt ends before or after the blank.
    """

    inline: tuple[str, ...]
    indentation: tuple[str, ...]


def probe_joins(encode: Encode) -> Joins:
    """What a tokenizer does with blanks, found out by encoding."""

    def joins(before: str, blank: str) -> bool:
        whole = encode(f"{before}{blank}name")
        return (
            encode(before) + encode(f"{blank}name") == whole
            and encode(f"{before}{blank}") + encode("name") != whole
        )

    return Joins(
        inline=tuple(blank for blank in _BLANKS if joins("value =", blank)),
        indentation=tuple(blank for blank in _BLANKS if joins(f"value:\n{blank * 3}", blank)),
    )


class TokenHealing:
    """The rule of one recipe for one tokenizer."""

    def __init__(
        self, mode: HealingMode, joins: Joins, encode: Encode, token_bytes: Sequence[bytes]
    ) -> None:
        self._joins = joins
        self._encode = encode
        self._token_bytes = token_bytes
        self._held: Callable[[str], str] = {
            HealingMode.OFF: lambda _: "",
            HealingMode.WHITESPACE: self._blank,
            HealingMode.TOKEN: self._token,
        }[mode]

    def held(self, prefix: str) -> str:
        """The end of `prefix` that does not go into the prompt; often empty."""
        return self._held(prefix)

    def _blank(self, prefix: str) -> str:
        last = prefix[-1:]
        if last not in _BLANKS:
            return ""
        line = prefix[prefix.rfind("\n") + 1 :]
        joining = self._joins.indentation if line.isspace() else self._joins.inline
        return last if last in joining else ""

    def _token(self, prefix: str) -> str:
        if not (prefix[-1:].isalnum() or prefix[-1:] == "_"):
            return self._blank(prefix)
        # With the line break, because some tokenizers keep the indentation with it.
        start = max(prefix.rfind("\n"), len(prefix) - _LINE_END_CHARS, 0)
        ids = self._encode(prefix[start:])
        try:
            held = self._token_bytes[ids[-1]].decode()
        except UnicodeDecodeError:
            return ""  # A part of a character: there is nothing to match it with.
        return held if prefix.endswith(held) else ""
