"""The window of text before the cursor. Pure.

Its start snaps to a coarse boundary of the file (`lines_before`), never to the first line received:
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
from orchestrator.prompt.line_cuts import CutStyle
from orchestrator.prompt.lines_before import Line, LinesBefore
from orchestrator.prompt.parts import Encode

_TAIL_STEP_TOKENS = 64
"""Room for the tail is taken in steps, so that a growing line moves the window rarely."""

_CHARS_PER_TOKEN = 3
"""Code has about three; used where a window is counted in characters."""


class PrefixWindow(msgspec.Struct, frozen=True):
    """Tokens before the cursor: `stable` up to the cursor's line, `tail` the rest."""

    stable: array[int]
    tail: array[int]
    truncated: bool


class _Chunk(NamedTuple):
    """Text from the line at `start` (in the middle of a window: from its cut) to `end`."""

    start: int
    end: int
    ids: array[int]


class _Window(LinesBefore):
    """One composition's inputs, so that the steps below need not hand them around."""

    def __init__(
        self,
        prefix: str,
        first_line: int | None,
        snap_lines: int,
        style: CutStyle,
        encode: Encode,
    ) -> None:
        super().__init__(prefix, first_line, snap_lines.bit_length() - 1)
        self.style = style
        self.encode = encode

    def cut(self, line_start: int) -> int:
        return self.style.cut_before_line(self.text, line_start)

    def tokens(self, start: int, end: int) -> array[int]:
        return self.encode(self.text[start:end]) if start < end else array("i")


def prefix_window(
    prefix: str,
    first_line: int | None,
    *,
    room: int,
    snap_lines: int,
    style: CutStyle,
    encode: Encode,
    encode_tail: Encode,
) -> PrefixWindow:
    """At most `room` tokens of the text before the cursor.

    With `snap_lines` 0 it is counted from the cursor, and nothing of it is stable. `encode` is
    asked for texts that stay the same while typing and may be backed by a table; `encode_tail` for
    the rest.
    """
    if snap_lines == 0:
        return _counted_from_cursor(prefix, room, encode_tail)
    window = _Window(prefix, first_line, snap_lines, style, encode)
    line_start = prefix.rfind("\n") + 1
    cut = window.cut(line_start) if line_start else 0
    tail = encode_tail(prefix[cut:]) if len(prefix) - cut <= room * CHARS_PER_TOKEN_MAX else None
    if tail is None or len(tail) > room:
        tail = fit_line_end(prefix[line_start:], room, encode_tail)
        return PrefixWindow(array("i"), tail, truncated=True)
    # An empty line takes its step too, or the first character typed on it would.
    tail_room = -(-max(len(tail), 1) // _TAIL_STEP_TOKENS) * _TAIL_STEP_TOKENS
    stable, start = _stable(window, line_start, cut, room - tail_room)
    return PrefixWindow(stable, tail, truncated=start > 0)


def _counted_from_cursor(prefix: str, room: int, encode_tail: Encode) -> PrefixWindow:
    """A number of characters back from the cursor, whatever stands there."""
    kept = prefix[max(0, len(prefix) - room * _CHARS_PER_TOKEN) :]
    ids = encode_tail(kept)
    cut = len(kept) < len(prefix) or len(ids) > room
    return PrefixWindow(array("i"), ids[max(0, len(ids) - room) :], truncated=cut)


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
    lines = list(_until_coarse(window, window.lines(next_line, lowest)))
    fitting = bisect_right(
        range(len(lines)), room, key=lambda index: len(window.tokens(lines[index].start, end))
    )
    for level in range(window.level_max, 0, -1):
        for index in range(fitting - 1, (3 * fitting) // 4 - 1, -1):
            if lines[index].level >= level:
                return lines[index].start
    return lines[fitting - 1].start if fitting else None


def _until_coarse(window: _Window, lines: Iterator[Line]) -> Iterator[Line]:
    """Lines up to and including the first coarse boundary."""
    for line in lines:
        yield line
        if line.level == window.level_max:
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
