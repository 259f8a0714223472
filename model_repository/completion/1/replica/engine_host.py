"""Holds the engine for the loop: times its steps, replaces it when it breaks.

Rule: an exception from an engine never reaches further than here; it becomes `EngineFailedError`,
and the log gets its type and place, because its message may hold what the engine was working on.
"""

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from replica.engine import CacheReport, Engine, SequenceSpec, StepOutput
from replica.errors import EngineFailedError
from replica.load_report import StepTimes

log = logging.getLogger(__name__)
T = TypeVar("T")

_NO_CACHE = CacheReport(blocks_total=0, blocks_used=0, evictions_total=0, warm_sessions=0)


class EngineHost:
    """One engine at a time. Its methods belong to the loop's thread, but for those that say so."""

    def __init__(self, build: Callable[[], Engine], clock_us: Callable[[], int]) -> None:
        self._build = build
        self._clock_us = clock_us
        self._engine: Engine | None = None
        self.times = StepTimes()
        self.failures = 0
        self._step_started_us: int | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether there is an engine to work with; from any thread."""
        return self._engine is not None

    def load(self) -> None:
        """Build the engine.

        Raises:
            EngineFailedError: it cannot be built.
        """
        try:
            self._engine = self._build()
        except Exception as error:
            # Nothing of a request is in it: the message may be shown, and it says what to mend.
            log.exception("the engine cannot be built")
            raise EngineFailedError(f"the engine cannot be built: {error}") from error

    def has_room_for(self, spec: SequenceSpec) -> bool:
        """As `Engine.has_room_for`."""
        return self._loaded().has_room_for(spec)

    def add(self, spec: SequenceSpec) -> None:
        """As `Engine.add`.

        Raises:
            EngineFailedError: the engine broke and is gone.
        """
        engine = self._loaded()
        self._guarded(lambda: engine.add(spec))

    def release(self, sequence_id: int) -> None:
        """As `Engine.release`.

        Raises:
            EngineFailedError: the engine broke and is gone.
        """
        engine = self._loaded()
        self._guarded(lambda: engine.release(sequence_id))

    def step(self) -> tuple[int, Sequence[StepOutput]]:
        """As `Engine.step`: (when it started in microseconds, its outputs).

        Raises:
            EngineFailedError: the engine broke and is gone.
        """
        started_us = self._clock_us()
        self._step_started_us = started_us
        try:
            outputs = self._guarded(self._loaded().step)
        finally:
            self._step_started_us = None
        computed_tokens = sum(output.computed_tokens for output in outputs)
        self.times.observe(self._clock_us() - started_us, computed_tokens)
        return started_us, outputs

    def is_stuck(self, limit_us: int) -> bool:
        """Whether the step in flight takes longer than `limit_us`; from any thread."""
        started_us = self._step_started_us
        return started_us is not None and self._clock_us() - started_us > limit_us

    def cache_report(self) -> CacheReport:
        """As `Engine.cache_report`, empty while there is no engine; from any thread."""
        engine = self._engine
        return engine.cache_report() if engine else _NO_CACHE

    def close(self) -> None:
        """Close the engine, if there is one."""
        if self._engine:
            self._guarded(self._engine.close)
        self._engine = None

    def _loaded(self) -> Engine:
        assert self._engine is not None, "the loop works without an engine"
        return self._engine

    def _guarded(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - any failure of an engine means a broken engine
            self._engine = None
            self.failures += 1
            log.error("the engine broke: %s at %s", type(error).__name__, _place(error))  # noqa: TRY400 - a traceback's message may hold request data
            raise EngineFailedError(
                f"the engine broke ({type(error).__name__}) and is rebuilt; send the request again"
            ) from None


def _place(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.name}:{frame.lineno}"
