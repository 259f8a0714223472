"""Whether a request can still land in time and finds room. Pure.

A refusal costs no engine time, which is the whole point of it.
"""

from __future__ import annotations

import msgspec

from orchestrator.outcome import RefusalReason
from orchestrator.request import Deadline


class LoadSnapshot(msgspec.Struct, frozen=True):
    """What is in flight from this worker now, and the most that may be."""

    worker_in_flight: int
    worker_limit: int
    pool_in_flight: int
    pool_limit: int


class Admit(msgspec.Struct, frozen=True):
    """The request may spend engine time; `estimate_ms` is when it is expected to finish."""

    estimate_ms: float


class Refuse(msgspec.Struct, frozen=True):
    """The request ends here, with an empty suggestion."""

    reason: RefusalReason


AdmissionDecision = Admit | Refuse

_PERMISSIVE_ESTIMATE_MS = 0.0
"""Nothing is predicted from the pool's load yet: only a deadline that has passed refuses."""


def decide(deadline: Deadline, load: LoadSnapshot, now_ms: float) -> AdmissionDecision:
    """Admits what can land before `deadline` and finds room under both limits."""
    if deadline.remaining_ms(now_ms) <= _PERMISSIVE_ESTIMATE_MS:
        return Refuse(RefusalReason.DEADLINE)
    if load.worker_in_flight >= load.worker_limit or load.pool_in_flight >= load.pool_limit:
        return Refuse(RefusalReason.NO_CAPACITY)
    return Admit(_PERMISSIVE_ESTIMATE_MS)
