"""Verdicts against the truth: a simulated Envoy that knows why it placed each stream.

The sessions' memory, the poller and its snapshot are the real ones, on virtual time. Envoy, the
replicas and the control plane are simulated with the delays that were measured of the real ones
(docs/envoy.md): Envoy drops a dead replica at once and takes it back within 0.25 s, a published
change reaches it within 0.2 s. A poll sees each of them up to a second later.
`python -m tests.simulation.test_affinity_against_the_truth` prints the table of the document.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b

import httpx
import looptime
import msgspec
import pytest

from orchestrator.affinity import Affinity, Departure, Placement, Verdict
from orchestrator.load.fleet import Fleet
from orchestrator.load.poller import Poller
from tests.support.orchestrator import IDLE_MS, load_report

SLOTS = ("slot-0", "slot-1", "slot-2", "slot-3")
SESSIONS = 30
SECONDS = 90.0
SPILL_SHARE = 0.02
URLS = {slot: f"http://{slot}" for slot in SLOTS}


class LoopClock:
    def now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def epoch_ms(self) -> int:
        return int(self.now_ms())


@dataclass
class Fleetwide:
    """The replicas and the control plane as they are, and as Envoy sees them a little later."""

    rng: random.Random
    dead: set[str] = field(default_factory=set)
    dead_to_envoy: set[str] = field(default_factory=set)
    computed: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(SLOTS, 1)))
    draining: set[str] = field(default_factory=set)
    weights: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SLOTS, 100))
    envoy_draining: frozenset[str] = frozenset()
    envoy_weights: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SLOTS, 100))

    async def answer(self, asked: httpx.Request) -> httpx.Response:
        host = asked.url.host
        if host == "control":
            states = [
                {"slot": s, "state": "draining" if s in self.draining else "serving", "weight": w}
                for s, w in self.weights.items()
            ]
            return httpx.Response(200, json={"slots": states})
        if host in self.dead:
            raise httpx.ConnectError("nobody listens")
        report = load_report(computed=self.computed[host])
        return httpx.Response(200, content=msgspec.json.encode(report))

    def place(self, session: str, *, everywhere: bool = False) -> str:
        """Weighted rendezvous: like Maglev, a session moves only when one of two slots changes."""
        away = frozenset() if everywhere else self.envoy_draining | self.dead_to_envoy
        return max(
            (slot for slot in SLOTS if slot not in away),
            key=lambda slot: self.envoy_weights[slot] / -math.log(_unit(session, slot)),
        )

    async def disturb(self) -> None:
        """One disturbance after another, never so many that no slot is left."""
        while True:
            await asyncio.sleep(self.rng.uniform(4, 12))
            slot = self.rng.choice(SLOTS)
            what = self.rng.choice((self._crash, self._drain, self._reweigh))
            await what(slot)

    async def _crash(self, slot: str) -> None:
        self.dead.add(slot)
        self.dead_to_envoy.add(slot)
        await asyncio.sleep(self.rng.uniform(2, 6))
        self.dead.discard(slot)
        self.computed[slot] = 0
        await asyncio.sleep(self.rng.uniform(0, 0.25))
        self.dead_to_envoy.discard(slot)
        self.computed[slot] = 1

    async def _drain(self, slot: str) -> None:
        self.draining.add(slot)
        await self._published()
        await asyncio.sleep(self.rng.uniform(3, 8))
        self.draining.discard(slot)
        await self._published()

    async def _reweigh(self, slot: str) -> None:
        self.weights[slot] = self.rng.choice((30, 60, 100, 150))
        await self._published()

    async def _published(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.05, 0.2))
        self.envoy_draining, self.envoy_weights = frozenset(self.draining), dict(self.weights)


def _unit(session: str, slot: str) -> float:
    digest = blake2b(f"{session}/{slot}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 1) / (2**64 + 2)


@dataclass
class Run:
    """Counts of (truth, verdict), and what must hold besides."""

    seen: Counter[tuple[str, Placement]] = field(default_factory=Counter)
    requests: int = 0
    verdicts: int = 0

    def note(self, truth: str, verdict: Verdict) -> None:
        self.verdicts += 1
        self.seen[truth, verdict.placement] += 1


class Typist:
    """One session that types, and knows why it was served where it was."""

    def __init__(self, name: str, fleet: Fleetwide, affinity: Affinity, run: Run) -> None:
        self.name, self.fleet, self.affinity, self.run = name, fleet, affinity, run
        self.last = ""
        self.belonged = ""
        self.visited: set[str] = set()

    async def type(self, rng: random.Random, clock: LoopClock) -> None:
        await asyncio.sleep(rng.uniform(0, 2))
        while True:
            served, spilled = self.fleet.place(self.name), False
            away = self.fleet.envoy_draining | self.fleet.dead_to_envoy
            if rng.random() < SPILL_SHARE:
                others = [slot for slot in SLOTS if slot != served and slot not in away]
                served, spilled = (rng.choice(others), True) if others else (served, False)
            truth = self._truth(served, spilled=spilled)
            await asyncio.sleep(rng.uniform(0.01, 0.05))
            self._told(truth, served, clock.now_ms())
            await asyncio.sleep(rng.choice((0.08, 0.15, 0.3, 1.5)))

    def _truth(self, served: str, *, spilled: bool) -> str:
        belongs = self.fleet.place(self.name)
        if not self.last:
            truth = "first"
        elif served == self.last:
            truth = "warm"
        elif spilled:
            truth = "spilled"
        elif belongs == self.belonged or (
            belongs == self.fleet.place(self.name, everywhere=True) and belongs in self.visited
        ):
            truth = "returned"
        else:
            truth = "moved"
        self.last, self.belonged = served, belongs
        if not spilled:
            self.visited.add(served)
        return truth

    def _told(self, truth: str, served: str, now_ms: float) -> None:
        self.run.requests += 1
        verdict = self.affinity.served("fast", self.name, served, now_ms)
        if isinstance(verdict, Departure):
            self.affinity.wait(verdict, lambda late: self.run.note(truth, late))
        else:
            self.run.note(truth, verdict)


async def _simulate(seed: int) -> Run:
    rng, clock, run = random.Random(seed), LoopClock(), Run()
    fleet = Fleetwide(rng)
    affinity = Affinity(Fleet.unknown(SLOTS), entries_max=SESSIONS, idle_ms=IDLE_MS)
    http = httpx.AsyncClient(transport=httpx.MockTransport(fleet.answer))
    poller = Poller(URLS, http, clock, control_plane_url="http://control", on_fleet=affinity.saw)
    typists = [Typist(f"session-{n}", fleet, affinity, run) for n in range(SESSIONS)]
    works = [poller.run(), *(typist.type(rng, clock) for typist in typists)]
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.sleep(5)
    tasks.append(asyncio.create_task(fleet.disturb()))
    await asyncio.sleep(SECONDS)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
    affinity.close(clock.now_ms())
    return run


def simulate(seed: int) -> Run:
    """One run on a virtual-time loop of its own."""
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=1)) as runner:
        return runner.run(_simulate(seed))


def total_of(seen: Counter[tuple[str, Placement]], truth: str) -> int:
    return sum(count for (each, _), count in seen.items() if each == truth)


def share_right(seen: Counter[tuple[str, Placement]], truth: str) -> float:
    return seen[truth, Placement(truth)] / total_of(seen, truth)


@pytest.fixture(scope="module")
def run() -> Run:
    """Some runs, added up."""
    total = Run()
    for seed in range(4):
        one = simulate(seed)
        total.seen += one.seen
        total.requests += one.requests
        total.verdicts += one.verdicts
    return total


def test_every_request_gets_one_verdict_while_slots_come_and_go(run: Run) -> None:
    assert run.requests == run.verdicts > 10_000
    assert min(total_of(run.seen, truth) for truth in Placement) > 50


def test_warm_and_first_requests_are_never_taken_for_a_loss(run: Run) -> None:
    assert share_right(run.seen, "warm") == 1.0
    assert share_right(run.seen, "first") == 1.0


@pytest.mark.parametrize("truth", ["spilled", "moved", "returned"])
def test_a_loss_is_named_rightly_unless_a_spill_meets_a_change(run: Run, truth: str) -> None:
    assert share_right(run.seen, truth) > 0.85


def test_a_move_is_hardly_ever_taken_for_a_spill(run: Run) -> None:
    """Deciding at once, without waiting for a reading, does so in two of five cases."""
    assert run.seen["moved", Placement.SPILLED] <= 0.05 * total_of(run.seen, "moved")


def main() -> None:
    seen: Counter[tuple[str, Placement]] = Counter()
    for seed in range(20):
        seen += simulate(seed).seen
    for truth in Placement:
        row = {verdict.value: seen[truth.value, verdict] for verdict in Placement}
        print(f"{truth:9} {share_right(seen, truth):7.2%} {row}")


if __name__ == "__main__":
    main()
