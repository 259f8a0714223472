"""Lines of the text before the cursor, and which of them are boundaries. Pure.

A boundary is every 2^n-th line of the file where the client says at which line its text starts,
else a line chosen by a hash of what it says; never the first line received, which may be cut
anywhere. So a boundary stays where it is while a client's window slides over the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.prompt.line_cuts import level_of_content, level_of_number


class Line(NamedTuple):
    """Offset of a line's start, and how coarse a boundary it is: 0 to the largest level."""

    start: int
    level: int


class LinesBefore:
    """The lines of `text`; `first_line` is the file's number of its first line, or None."""

    def __init__(self, text: str, first_line: int | None, level_max: int) -> None:
        self.text = text
        self.first_line = first_line
        self.level_max = level_max

    def start_before(self, line_start: int) -> int:
        """Where the line in front of the one at `line_start` starts."""
        return self.text.rfind("\n", 0, line_start - 1) + 1

    def number_at(self, line_start: int) -> int:
        """The file's number of the line at `line_start`; 0 where numbers are unknown."""
        if self.first_line is None:
            return 0
        return self.first_line + self.text.count("\n", 0, line_start)

    def coarse_starts(self, line_start: int, lowest: int) -> Iterator[int]:
        """Coarse boundaries in front of the line at `line_start`, nearest first, from `lowest`."""
        if self.first_line is None:
            lines = self.lines(line_start, lowest)
            yield from (line.start for line in lines if line.level == self.level_max)
            return
        number, distance = self.number_at(line_start), 1 << self.level_max
        while line_start > lowest:
            for _ in range(number % distance or distance):
                if line_start == 0:
                    return
                line_start = self.start_before(line_start)
                number -= 1
            yield line_start

    def lines(self, line_start: int, lowest: int) -> Iterator[Line]:
        """Lines in front of the one at `line_start`, nearest first, from `lowest` on."""
        number = self.number_at(line_start)
        while line_start > lowest:
            end, line_start = line_start, self.start_before(line_start)
            number -= 1
            if self.first_line is not None:
                yield Line(line_start, level_of_number(number, self.level_max))
            else:
                content = self.text[line_start:end] if line_start else ""
                yield Line(line_start, level_of_content(content, self.level_max))
