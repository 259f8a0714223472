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

import msgspec

from orchestrator.prompt.fitting import CHARS_PER_TOKEN_MAX, fit_line_end
from orchestrator.prompt.line_cuts import (
    SNAP_LEVEL_MAX,
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


class _Line(msgspec.Struct, frozen=True):
    start: int
    level: int


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

    def lines_before(self, line_start: int, chars_max: int) -> Iterator[_Line]:
        """Lines in front of the one at `line_start`, nearest first, for `chars_max` characters."""
        lowest = max(0, line_start - chars_max)
        number = None
        if self.first_line is not None:
            number = self.first_line + self.prefix.count("\n", 0, line_start)
        while line_start > lowest:
            end, line_start = line_start, self.prefix.rfind("\n", 0, line_start - 1) + 1
            if number is not None:
                number -= 1
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
    starts, ends, used = [], [cut], 0
    pending: list[_Line] = []
    for line in window.lines_before(line_start, max(room, 0) * CHARS_PER_TOKEN_MAX):
        pending.append(line)
        if line.level < SNAP_LEVEL_MAX:
            continue
        used += len(window.tokens(window.cut(line.start), ends[-1]))
        if used > room:
            break
        starts.append(line.start)
        ends.append(window.cut(line.start))
        pending.clear()
    kept = sum(len(window.tokens(a, b)) for a, b in zip(ends[1:], ends, strict=False))
    if pending and 2 * kept < room:
        finer = _finer_start(window, pending, ends[-1], room - kept)
        if finer is not None:
            starts.append(finer)
            ends.append(finer)
    return _joined(window, starts, ends, room, cut)


def _finer_start(window: _Window, pending: list[_Line], end: int, room: int) -> int | None:
    """A start inside a chunk that does not fit whole or has no coarse boundary of its own.

    Of the lines that fit, the earliest at the coarsest level that keeps three quarters of them.
    """
    fitting = bisect_right(
        range(len(pending)),
        room,
        key=lambda index: len(window.tokens(pending[index].start, end)),
    )
    for level in range(SNAP_LEVEL_MAX, 0, -1):
        for index in range(fitting - 1, (3 * fitting) // 4 - 1, -1):
            if pending[index].level >= level:
                return pending[index].start
    return pending[fitting - 1].start if fitting else None


def _joined(
    window: _Window, starts: list[int], ends: list[int], room: int, cut: int
) -> tuple[array[int], int]:
    """The chunks from the earliest start on; the first begins at its line, not at its cut."""
    while starts:
        ids = window.tokens(starts[-1], ends[len(starts) - 1])
        for index in range(len(starts) - 2, -1, -1):
            ids = ids + window.tokens(ends[index + 1], ends[index])
        if len(ids) <= room:
            return ids, starts[-1]
        starts.pop()
    return array("i"), cut
