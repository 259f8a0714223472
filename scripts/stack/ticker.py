"""One line that says how far something is, drawn again in place on a terminal."""

import sys


class Ticker:
    """Prints a text when it is another one than the last; call `close` before printing else."""

    def __init__(self) -> None:
        self._is_live = sys.stdout.isatty()
        self._last = ""

    def say(self, text: str) -> None:
        """Show the text."""
        if text == self._last:
            return
        self._last = text
        if self._is_live:
            print(f"\r\x1b[K{text}", end="", flush=True)
        else:
            print(text, flush=True)

    def close(self) -> None:
        """Leave the line."""
        if self._is_live and self._last:
            print()
        self._last = ""
