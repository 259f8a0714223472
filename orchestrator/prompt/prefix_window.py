"""The window of text before the cursor. Pure.

Its start snaps to a coarse boundary of the file (every 32nd line where the client says which line
its text starts at, else lines chosen by a hash of their content), never to the first line received:
a client's sliding window must not move it, because a moved start is a cold prefill.

The text between two boundaries is one chunk and is encoded by itself, so that the tokens of a
chunk depend on that chunk alone. What follows the last line break is the tail; typing changes the
tail and nothing else.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from orchestrator.prompt.fitting import CHARS_PER_TOKEN_MAX, fit_line_end
from orchestrator.prompt.line_cuts import (
    SNAP_LEVEL_MAX,
    SNAP_LINES,
    CutStyle,
    level_of_content,
    level_of_number,
)
from orchestrator.prompt.parts import Encode

_TAIL_STEP_TOKENS = 64
"""Room for the tail is taken in steps, so that a growing line moves the window rarely."""


class PrefixWindow(msgspec.Struct, frozen=True):
    """Tokens before the cursor: `stable` up to the cursor's line, `tail` the rest."""

    stable: array[int]
    tail: array[int]
    truncated: bool


class _Line(NamedTuple):
    start: int
    level: int


class _Chunk(NamedTuple):
    """Text from the line at `start` (in the middle of a window: from its cut) to `end`."""

    start: int
    end: int
    ids: array[int]


class _Window:
    """One composition's inputs, so that the steps below need not hand them around."""

    def __init__(
        self, prefix: str, first_line: int | None, style: CutStyle, encode: Encode
    ) -> None:
        self.prefix = prefix
        self.first_line = first_line
        self.style = style
        self.encode = encode

    def cut(self, line_start: int) -> int:
        return self.style.cut_before_line(self.prefix, line_start)

    def tokens(self, start: int, end: int) -> array[int]:
        return self.encode(self.prefix[start:end]) if start < end else array("i")

    def start_before(self, line_start: int) -> int:
        """Where the line in front of the one at `line_start` starts."""
        return self.prefix.rfind("\n", 0, line_start - 1) + 1

    def coarse_starts(self, line_start: int, lowest: int) -> Iterator[int]:
        """Coarse boundaries in front of the line at `line_start`, nearest first, from `lowest`."""
        if self.first_line is None:
            lines = self.lines_before(line_start, lowest)
            yield from (line.start for line in lines if line.level == SNAP_LEVEL_MAX)
            return
        number = self.first_line + self.prefix.count("\n", 0, line_start)
        while line_start > lowest:
            for _ in range(number % SNAP_LINES or SNAP_LINES):
                if line_start == 0:
                    return
                line_start = self.start_before(line_start)
                number -= 1
            yield line_start

    def lines_before(self, line_start: int, lowest: int) -> Iterator[_Line]:
        """Lines in front of the one at `line_start`, nearest first, from `lowest` on."""
        number = 0
        if self.first_line is not None:
            number = self.first_line + self.prefix.count("\n", 0, line_start)
        while line_start > lowest:
            end, line_start = line_start, self.start_before(line_start)
            number -= 1
            if self.first_line is not None:
                yield _Line(line_start, level_of_number(number))
            else:  # The first line received may be cut anywhere: no boundary.
                level = level_of_content(self.prefix[line_start:end]) if line_start else 0
                yield _Line(line_start, level)


def prefix_window(
    prefix: str,
    first_line: int | None,
    *,
    room: int,
    style: CutStyle,
    encode: Encode,
    encode_tail: Encode,
) -> PrefixWindow:
    """At most `room` tokens of the text before the cursor.

    `encode` is asked for texts that stay the same while typing and may be backed by a table;
    `encode_tail` for the rest.
    """
    window = _Window(prefix, first_line, style, encode)
    line_start = prefix.rfind("\n") + 1
    cut = window.cut(line_start) if line_start else 0
    tail = encode_tail(prefix[cut:]) if len(prefix) - cut <= room * CHARS_PER_TOKEN_MAX else None
    if tail is None or len(tail) > room:
        tail = fit_line_end(prefix[line_start:], room, encode_tail)
        return PrefixWindow(array("i"), tail, truncated=True)
    tail_room = -(-len(tail) // _TAIL_STEP_TOKENS) * _TAIL_STEP_TOKENS
    stable, start = _stable(window, line_start, cut, room - tail_room)
    return PrefixWindow(stable, tail, truncated=start > 0)


def _stable(window: _Window, line_start: int, cut: int, room: int) -> tuple[array[int], int]:
    """Tokens between the window's start and `cut`, and where the window starts."""
    lowest = max(0, line_start - max(room, 0) * CHARS_PER_TOKEN_MAX)
    chunks: list[_Chunk] = []
    kept, end, next_line = 0, cut, line_start
    for start in window.coarse_starts(line_start, lowest):
        chunk_cut = window.cut(start)
        ids = window.tokens(chunk_cut, end)
        if kept + len(ids) > room:
            break
        chunks.append(_Chunk(start, end, ids))
        kept, end, next_line = kept + len(ids), chunk_cut, start
    if 2 * kept < room:
        finer = _finer_start(window, next_line, lowest, end, room - kept)
        if finer is not None:
            chunks.append(_Chunk(finer, end, array("i")))
    return _joined(window, chunks, room, cut)


def _finer_start(window: _Window, next_line: int, lowest: int, end: int, room: int) -> int | None:
    """A start inside a chunk that does not fit whole or has no coarse boundary of its own.

    Of the lines that fit, the earliest at the coarsest level that keeps three quarters of them.
    """
    lines = list(_until_coarse(window.lines_before(next_line, lowest)))
    fitting = bisect_right(
        range(len(lines)), room, key=lambda index: len(window.tokens(lines[index].start, end))
    )
    for level in range(SNAP_LEVEL_MAX, 0, -1):
        for index in range(fitting - 1, (3 * fitting) // 4 - 1, -1):
            if lines[index].level >= level:
                return lines[index].start
    return lines[fitting - 1].start if fitting else None


def _until_coarse(lines: Iterator[_Line]) -> Iterator[_Line]:
    """Lines up to and including the first coarse boundary."""
    for line in lines:
        yield line
        if line.level == SNAP_LEVEL_MAX:
            return


def _joined(window: _Window, chunks: list[_Chunk], room: int, cut: int) -> tuple[array[int], int]:
    """The chunks, given nearest first; the earliest begins at its line, not at its cut."""
    while chunks:
        earliest = chunks[-1]
        ids = array("i", window.tokens(earliest.start, earliest.end))
        for chunk in reversed(chunks[:-1]):
            ids += chunk.ids
        if len(ids) <= room:
            return ids, earliest.start
        chunks.pop()
    return array("i"), cut
