"""When an answer stops being worth anything: pure arithmetic on stamps.

The span starts at the edge's receipt, not at ours, so that time spent in queues before us counts.
"""

from __future__ import annotations

import msgspec

from orchestrator.request import CompletionRequest, Deadline, Mode


class DeadlineLimits(msgspec.Struct, frozen=True):
    """The longest span per mode; a client may ask for less, never for more."""

    line_ms: int = 800
    block_ms: int = 2000

    def of(self, mode: Mode) -> int:
        """The limit of one mode, in ms."""
        return self.line_ms if mode is Mode.LINE else self.block_ms


RECEIPT_AGE_MAX_MS = 10_000
"""An older stamp is a clock that disagrees with ours, not a request that waited."""


def receipt_age_ms(stamp: str | None, epoch_now_ms: int) -> int:
    """Milliseconds since the edge stamped the request; 0 where the stamp is absent or nonsense.

    Nonsense is: no integer, in the future, or older than `RECEIPT_AGE_MAX_MS`.
    """
    if stamp is None or not stamp.isascii() or not stamp.isdigit() or len(stamp) > 16:
        return 0
    age_ms = epoch_now_ms - int(stamp)
    return age_ms if 0 <= age_ms <= RECEIPT_AGE_MAX_MS else 0


def deadline_of(request: CompletionRequest, mode: Mode, limits: DeadlineLimits) -> Deadline:
    """The smaller of the client's wish and the mode's limit, from the edge's receipt."""
    limit_ms = limits.of(mode)
    if request.client_deadline_ms is not None:
        limit_ms = min(limit_ms, request.client_deadline_ms)
    return Deadline(at_ms=request.received_ms + limit_ms, limit_ms=limit_ms)
