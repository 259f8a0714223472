"""Shows how far a start is in a table that is drawn again in place."""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scripts.stack.progress import PlainProgress, Progress, SilentProgress
from scripts.stack.readiness import ProcessView


class LiveProgress:
    """A table that is drawn again in place."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._console = Console()
        self._live: Live | None = None

    def note(self, text: str) -> None:
        """Print the line above the table."""
        self._console.print(text, highlight=False, markup=False)

    def show(self, views: Sequence[ProcessView]) -> None:
        """Draw the table."""
        if self._live is None:
            self._live = Live(console=self._console, refresh_per_second=8)
            self._live.start()
        self._live.update(_table(views, time.monotonic() - self._started))

    def close(self) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def progress_for(quiet: bool) -> Progress:
    """Return the fitting display for this terminal."""
    if quiet:
        return SilentProgress()
    return LiveProgress() if sys.stdout.isatty() else PlainProgress()


def _table(views: Sequence[ProcessView], elapsed_s: float) -> Table:
    ready = sum(view.ready for view in views)
    title = f"{ready} of {len(views)} ready, {elapsed_s:.0f} s"
    table = Table(box=None, show_header=False, title=title, title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="ellipsis", no_wrap=True)
    for view in views:
        state = Text("ready", "green") if view.ready else Text(view.state.lower(), "yellow")
        table.add_row(Text(view.name), state, Text(view.detail, "dim"))
    return table
