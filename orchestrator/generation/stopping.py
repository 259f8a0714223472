"""Where a block ends, decided while its text arrives. Pure.

A block ends where brackets close below where they started and, in languages whose blocks are
indented, where a line falls below the block's level. The rule looks at one character after another,
so its verdict does not depend on how the text was cut. The newline rule of lines runs in the
engine; `postprocess` makes sure of it.
"""

from __future__ import annotations

from orchestrator.languages import INDENTED

_OPENERS, _CLOSERS = frozenset("([{"), frozenset(")]}")
_QUOTES = frozenset("\"'`")
_TAB_COLUMNS = 4


class BlockRule:
    """Watches one completion in block mode.

    `line_before` is the cursor's line up to the cursor, `language` a name of `languages`.
    """

    def __init__(self, line_before: str, language: str) -> None:
        self._indented = language in INDENTED
        self._length = 0
        self._content_end = 0
        self._depth = 0
        self._quote = ""
        self._escaped = False
        self._at_line_start = not line_before.strip()
        self._column = _columns(line_before)
        # With text before the cursor the block is what hangs below its line: deeper lines only.
        self._level = _columns(_indentation(line_before)) + 1 if line_before.strip() else None
        self.stop_at: int | None = None

    def feed(self, text: str) -> int | None:
        """The offset, in all text fed so far, at which the block ends; None while it goes on."""
        for character in text:
            if self.stop_at is not None:
                break
            self._look_at(character)
            self._length += 1
        return self.stop_at

    def _look_at(self, character: str) -> None:
        if character == "\n":
            self._at_line_start, self._column, self._escaped = True, 0, False
            if self._quote in {"'", '"'}:
                self._quote = ""  # Only backquotes span lines; this also forgives an apostrophe.
        elif self._at_line_start and character in " \t\r":
            self._column += _TAB_COLUMNS if character == "\t" else 1
        else:
            self._look_at_content(character)

    def _look_at_content(self, character: str) -> None:
        if self._at_line_start:
            self._at_line_start = False
            if self._falls_below(character):
                self.stop_at = self._content_end
                return
        if self._quote:
            self._inside_quotes(character)
        elif character in _QUOTES:
            self._quote = character
        elif character in _OPENERS:
            self._depth += 1
        elif character in _CLOSERS:
            self._depth -= 1
            if self._depth < 0:
                self.stop_at = self._content_end
                return
        if not character.isspace():
            self._content_end = self._length + 1

    def _falls_below(self, character: str) -> bool:
        """Whether the line that starts here is outside of the block; the first line sets it."""
        if self._level is None:
            self._level = self._column
        inside = self._depth > 0 or self._quote == "`"
        return self._indented and not inside and self._column < self._level

    def _inside_quotes(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == self._quote:
            self._quote = ""


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _columns(line: str) -> int:
    return sum(_TAB_COLUMNS if character == "\t" else 1 for character in line)
