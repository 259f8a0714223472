"""Says how far a start or a stop is, in plain lines. Standard library only."""

import time
from collections.abc import Sequence
from typing import Protocol

from scripts.stack.readiness import ProcessView


class Progress(Protocol):
    """What a start tells while it runs."""

    def note(self, text: str) -> None:
        """Say that something was done."""

    def show(self, views: Sequence[ProcessView]) -> None:
        """Show the present state of all processes."""

    def close(self) -> None:
        """Leave the last state standing."""


class PlainProgress:
    """One line for each thing that becomes ready."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._ready: set[str] = set()

    def note(self, text: str) -> None:
        """Print the line."""
        print(text, flush=True)

    def show(self, views: Sequence[ProcessView]) -> None:
        """Print what has become ready since the last look."""
        for view in views:
            if view.ready and view.name not in self._ready:
                self._ready.add(view.name)
                elapsed_s = time.monotonic() - self._started
                print(f"{view.name}: ready after {elapsed_s:.1f} s", flush=True)

    def close(self) -> None:
        """Leave the lines as they are."""


class SilentProgress:
    """Says nothing."""

    def note(self, text: str) -> None:
        """Drop the line."""

    def show(self, views: Sequence[ProcessView]) -> None:
        """Drop the table."""

    def close(self) -> None:
        """Nothing is open."""
