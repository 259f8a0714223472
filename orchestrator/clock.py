"""Time, injected. Only `main` modules build a `SystemClock`; decisions are handed `now_ms`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The two times that a request needs."""

    def now_ms(self) -> float:
        """Monotonic milliseconds; only differences mean something."""
        ...

    def epoch_ms(self) -> int:
        """Wall-clock milliseconds since 1970; only to compare with stamps of other processes."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> float:
        """Monotonic milliseconds."""
        return time.monotonic_ns() / 1e6

    def epoch_ms(self) -> int:
        """Wall-clock milliseconds since 1970."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is told to move: the fake for unit tests."""

    def __init__(self, now_ms: float = 0.0, epoch_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._epoch_offset_ms = epoch_ms - now_ms

    def now_ms(self) -> float:
        """Monotonic milliseconds."""
        return self._now_ms

    def epoch_ms(self) -> int:
        """Wall-clock milliseconds, moving with the monotonic ones."""
        return int(self._now_ms + self._epoch_offset_ms)

    def advance(self, span_ms: float) -> None:
        """Let `span_ms` pass; time never goes back."""
        if span_ms < 0:
            raise ValueError(f"time only moves forward: asked to advance by {span_ms} ms")
        self._now_ms += span_ms
