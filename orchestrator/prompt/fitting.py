"""Cutting a text to a number of tokens, at line boundaries where there are any. Pure."""

from __future__ import annotations

from array import array

from orchestrator.prompt.parts import Encode

CHARS_PER_TOKEN_MAX = 8
"""Code has about three characters a token; more text than this per token is not even encoded."""


def fit_head(text: str, room: int, encode: Encode) -> tuple[array[int], bool]:
    """Tokens of the longest run of whole lines from the start that fits; whether it was cut.

    One line that does not fit by itself is cut inside. Near the limit it may stop a line early,
    because lines are measured by the text's mean tokens per character, not one by one.
    """
    kept = _whole_lines(text, room * CHARS_PER_TOKEN_MAX)
    ids = encode(kept)
    while len(ids) > room:
        kept = _whole_lines(kept, len(kept) * room // len(ids) - 1)
        ids = encode(kept)
    return ids, len(kept) < len(text)


def fit_line_end(line: str, room: int, encode: Encode) -> array[int]:
    """Tokens of the end of one line that fit.

    The cut lies at a multiple of half of what is kept, counted from the line's start, so that it
    stays where it is while the line grows.
    """
    chars = room * CHARS_PER_TOKEN_MAX
    while True:
        ids = encode(_snapped_end(line, chars))
        if len(ids) <= room:
            return ids
        chars //= 2


def _whole_lines(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    chars_max = max(chars_max, 0)
    end = text.rfind("\n", 0, chars_max) + 1
    return text[: end or chars_max]


def _snapped_end(line: str, chars_max: int) -> str:
    if len(line) <= chars_max or chars_max == 0:
        return line if chars_max else ""
    step = max(chars_max // 2, 1)
    cut = -(-(len(line) - chars_max) // step) * step
    return line[cut:]
