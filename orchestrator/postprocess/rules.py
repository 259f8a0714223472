"""The text rules, each a pure function of the text and its context."""

from __future__ import annotations

import re

from orchestrator.postprocess.verdict import Context, Dropped, FilterVerdict, Kept
from orchestrator.request import Mode

_CONTROL_TOKEN = re.compile(
    r"<\|(?:endoftext|fim_[a-z]+|file_sep(?:arator)?|repo_name|im_start|im_end|eot_id"
    r"|end_of_text|begin_of_text|cursor|code_(?:prefix|suffix|middle))\|>"
    r"|</?fim_(?:prefix|suffix|middle|pad)>"
    r"|<｜(?:fim▁(?:begin|hole|end)|end▁of▁sentence|begin▁of▁sentence)｜>"  # noqa: RUF001 (DeepSeek spells its markers so)
    r"|<(?:PRE|SUF|MID|EOT)>|\[(?:PREFIX|SUFFIX|MIDDLE)\]|<file_sep>|<reponame>|<filename>"
)
"""Control tokens of known model families, where a model spells them out as text."""

_PAIRS = {")": "(", "]": "[", "}": "{"}
_QUOTES = "\"'`"
_WORD_OVERLAP_CHARS_MIN = 4
"""A shorter overlap of words is chance: most identifiers share a last letter with something."""


def cut_at_control_token(text: str, context: Context) -> FilterVerdict:
    """A spelled-out control token ends the completion."""
    found = _CONTROL_TOKEN.search(text)
    return Kept(text[: found.start()] if found else text)


def cut_at_newline(text: str, context: Context) -> FilterVerdict:
    """Line mode shows one line, without its line ending."""
    if context.mode is not Mode.LINE:
        return Kept(text)
    return Kept(text.partition("\n")[0].removesuffix("\r"))


def cut_trailing_whitespace(text: str, context: Context) -> FilterVerdict:
    """Nobody wants to accept whitespace that they cannot see."""
    return Kept(text.rstrip())


def drop_whitespace_only(text: str, context: Context) -> FilterVerdict:
    """Nothing to see is nothing to show."""
    return Kept(text) if text.strip() else Dropped("whitespace_only")


def cut_overlap_with_rest_of_line(text: str, context: Context) -> FilterVerdict:
    """What already follows the cursor on its line is not suggested again.

    Closers go only where the text itself did not open them: `b()` before `)` keeps its own.
    """
    rest = context.rest_of_line.rstrip()
    if not rest or "\n" in text:
        return Kept(text)
    for length in range(min(len(rest), len(text)), 0, -1):
        if text.endswith(rest[:length]) and _is_repetition(text, rest, length):
            return Kept(text[:-length])
    return Kept(text)


def _is_repetition(text: str, rest: str, length: int) -> bool:
    overlap = rest[:length].strip()
    if not overlap:
        return False
    if all(character in _PAIRS or character in _QUOTES for character in overlap):
        return _unopened(text) >= len(overlap)
    return length == len(rest) or length >= _WORD_OVERLAP_CHARS_MIN


def _unopened(text: str) -> int:
    """How many closers and closing quotes of `text` have no partner in it."""
    open_brackets: list[str] = []
    unopened = 0
    for character in text:
        if character in _PAIRS.values():
            open_brackets.append(character)
        elif character in _PAIRS:
            if open_brackets and open_brackets[-1] == _PAIRS[character]:
                open_brackets.pop()
            else:
                unopened += 1
    return unopened + sum(text.count(quote) % 2 for quote in _QUOTES)
