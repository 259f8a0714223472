"""The sessions' memory of where they were served, and the verdicts that have to wait.

Soft state in bounded tables. The rule: every request that is told of gets exactly one verdict, at
once or later, whatever is forgotten in between. Time and the fleet are handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from orchestrator.affinity.idle_table import IdleTable
from orchestrator.affinity.placement import Places, Verdict, judge, settled, visited
from orchestrator.load.fleet import POLL_INTERVAL_MS, Fleet

_WAIT_MS_MAX = 5 * POLL_INTERVAL_MS

SessionInPool = tuple[str, str]
"""Pool and session key: pools place the same session by tables of their own."""


class Departure(msgspec.Struct, frozen=True):
    """A request that left its session's slot for a reason that is not known yet."""

    session: SessionInPool
    before: Places | None
    served: str
    at_ms: float


OnVerdict = Callable[[Verdict], None]


class Affinity:
    """What became of each session's warm prefix.

    `fleet` is the newest snapshot; at most `waiting_max` departures wait for a verdict, and the
    oldest gets its own by what is known when there are more.
    """

    def __init__(
        self, fleet: Fleet, *, entries_max: int, idle_ms: int, waiting_max: int = 4096
    ) -> None:
        self.fleet = fleet
        self._sessions: IdleTable[SessionInPool, Places] = IdleTable(entries_max, idle_ms)
        self._waiting: deque[tuple[Departure, OnVerdict]] = deque()
        self._waiting_max = waiting_max

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def waiting(self) -> int:
        """Departures without a verdict."""
        return len(self._waiting)

    def served(self, pool: str, session_key: str, slot: str, now_ms: float) -> Verdict | Departure:
        """Takes note of a request that `slot` served; a departure is to be handed to `wait`."""
        session = (pool, session_key)
        before = self._sessions.get(session, now_ms)
        verdict = judge(before, slot, self.fleet, now_ms)
        self._sessions.put(session, visited(before, slot, self.fleet, now_ms), now_ms)
        departure = Departure(session, before, slot, now_ms)
        if verdict is None:
            return departure
        self._settle(departure, verdict, now_ms)
        return verdict

    def wait(self, departure: Departure, on_verdict: OnVerdict) -> None:
        """Calls `on_verdict` once, from `saw` or `close`, or at once when too many wait."""
        self._waiting.append((departure, on_verdict))
        if len(self._waiting) > self._waiting_max:
            self._decide(*self._waiting.popleft(), departure.at_ms, final=True)

    def saw(self, fleet: Fleet, now_ms: float) -> None:
        """Takes a newer snapshot, and decides what it lets decide."""
        self.fleet = fleet
        for _ in range(len(self._waiting)):
            departure, on_verdict = self._waiting.popleft()
            final = now_ms - departure.at_ms >= _WAIT_MS_MAX
            if not self._decide(departure, on_verdict, now_ms, final=final):
                self._waiting.append((departure, on_verdict))

    def close(self, now_ms: float) -> None:
        """Decides all that waits, by what is known."""
        while self._waiting:
            self._decide(*self._waiting.popleft(), now_ms, final=True)

    def _decide(
        self, departure: Departure, on_verdict: OnVerdict, now_ms: float, *, final: bool
    ) -> bool:
        verdict = judge(
            departure.before, departure.served, self.fleet, departure.at_ms, final=final
        )
        if verdict is None:
            return False
        self._settle(departure, verdict, now_ms)
        on_verdict(verdict)
        return True

    def _settle(self, departure: Departure, verdict: Verdict, now_ms: float) -> None:
        now = self._sessions.get(departure.session, now_ms)
        if now is not None:
            places = settled(now, departure.before, departure.served, verdict, self.fleet)
            self._sessions.amend(departure.session, places)
