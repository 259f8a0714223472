"""The permits: counts of what is in flight, which return to zero whatever happens.

A permit is a `with` block. It decides and holds in one step without an `await` between, so no
other request can take the room that was just found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.admission.decision import AdmissionDecision, LoadSnapshot, Refuse, decide
from orchestrator.request import Deadline


class Permits:
    """Limits per worker and per pool, and what is held under them."""

    def __init__(self, worker_limit: int, pool_limit: int) -> None:
        self._worker_limit = worker_limit
        self._pool_limit = pool_limit
        self._worker_in_flight = 0
        self._pool_in_flight: dict[str, int] = {}

    def load(self, pool: str) -> LoadSnapshot:
        """What is in flight now."""
        return LoadSnapshot(
            worker_in_flight=self._worker_in_flight,
            worker_limit=self._worker_limit,
            pool_in_flight=self._pool_in_flight.get(pool, 0),
            pool_limit=self._pool_limit,
        )

    @contextmanager
    def enter(self, pool: str, deadline: Deadline, now_ms: float) -> Iterator[AdmissionDecision]:
        """Decides, and holds a permit until the block ends if the decision is to admit."""
        decision = decide(deadline, self.load(pool), now_ms)
        if isinstance(decision, Refuse):
            yield decision
            return
        self._take(pool, 1)
        try:
            yield decision
        finally:
            self._take(pool, -1)

    def _take(self, pool: str, count: int) -> None:
        self._worker_in_flight += count
        self._pool_in_flight[pool] = self._pool_in_flight.get(pool, 0) + count
