r"""Where a text may be cut into lines so that its pieces tokenise as the whole does. Pure.

Pre-tokenizers differ in what they do with a newline. One that keeps a newline with the indentation
that follows (`\r?\n[ \t]*`) must be cut before the whitespace; one that joins it to what comes
before (`\s*[\r\n]+`, `[^\s\p{L}\p{N}]+[\r\n]*`) after it. Which one a tokenizer is, is probed once.
"""

from __future__ import annotations

from enum import StrEnum
from zlib import crc32

_WHITESPACE_CHARS_MAX = 256
"""A longer run of blank lines is cut at the line instead, so that no piece grows without limit."""


class CutStyle(StrEnum):
    """Where the cut in front of a line lies."""

    BEFORE_WHITESPACE = "before_whitespace"
    AFTER_NEWLINE = "after_newline"

    def cut_before_line(self, text: str, line_start: int) -> int:
        """The offset at which to cut in front of the line that starts at `line_start`."""
        if self is CutStyle.AFTER_NEWLINE:
            return line_start
        low = max(0, line_start - _WHITESPACE_CHARS_MAX)
        kept = text[low:line_start].rstrip()
        return low + len(kept) if kept or low == 0 else line_start


def level_of_number(line_number: int, level_max: int) -> int:
    """How coarse a boundary the file's line is: n for every 2^n-th, 0 for odd ones."""
    if line_number == 0:
        return level_max
    return min((line_number & -line_number).bit_length() - 1, level_max)


def level_of_content(line: str, level_max: int) -> int:
    """The same for a line whose number is unknown, chosen by a hash of what it says.

    Content-defined boundaries stay where they are when a client's window slides over the file
    (the idea of content-defined chunking: Muthitacharoen et al., LBFS, 2001). Lines of fewer than
    three visible characters repeat too often to mark a place.
    """
    stripped = line.strip()
    if len(stripped) < 3:
        return 0
    return level_of_number(crc32(stripped.encode("utf-8", "surrogatepass")), level_max)
