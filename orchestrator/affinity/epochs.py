"""How long a prefix is kept: the epoch that the cache salt carries. Pure: time is handed in.

The CPU engine has no way to be told "drop what this session left". So the salt carries a number
that stays the same while its partition is in use and changes after an idle span: what was cached
under the old salt can never be found again, and is overwritten as the least recently used.

A new epoch is the wall clock's count of idle spans, not a random number. Within one span every
worker that begins a partition's epoch, or begins it again because its table lost it, comes to the
same number, so most lost entries cost nothing. It still changes after every idle span: an epoch
begins no later than its last use, so a whole span later the clock counts at least one more; where
a clock was set back, the old number plus one is taken.
"""

from __future__ import annotations

import msgspec

from orchestrator.affinity.idle_table import IdleTable


class Epoch(msgspec.Struct, frozen=True):
    """A partition's epoch and, on the monotonic clock, when it was used last."""

    number: int
    used_ms: float


def epoch_after(before: Epoch | None, now_ms: float, wall_ms: int, idle_ms: int) -> Epoch:
    """The epoch of a request at `now_ms` (monotonic; `wall_ms` is the same moment since 1970)."""
    if before is not None and now_ms - before.used_ms < idle_ms:
        return Epoch(before.number, now_ms)
    number = wall_ms // idle_ms
    return Epoch(number if before is None else max(number, before.number + 1), now_ms)


class Epochs:
    """The epochs of the partitions in use; at most `entries_max`, each for two idle spans.

    The second span only guards against a clock that is set back.
    """

    def __init__(self, entries_max: int, idle_ms: int) -> None:
        self._idle_ms = idle_ms
        self._table: IdleTable[bytes, Epoch] = IdleTable(entries_max, 2 * idle_ms)

    def __len__(self) -> int:
        return len(self._table)

    def use(self, partition: bytes, now_ms: float, wall_ms: int) -> int:
        """The partition's epoch; counts as a use."""
        epoch = epoch_after(self._table.get(partition, now_ms), now_ms, wall_ms, self._idle_ms)
        self._table.put(partition, epoch, now_ms)
        return epoch.number
