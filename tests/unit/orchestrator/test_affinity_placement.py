"""Why a request was served where it was: the verdicts, from memory and fleet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.affinity import Affinity, Departure, LossReason, Placement, Verdict
from orchestrator.load.fleet import Fleet, PublishedSlot, Refused, Silent
from tests.support.orchestrator import IDLE_MS, load_report

SLOTS = ("a", "b", "c")
WARM = Verdict(Placement.WARM)
FIRST = Verdict(Placement.FIRST)
RETURNED = Verdict(Placement.RETURNED, LossReason.RETURNED)
SPILLED = Verdict(Placement.SPILLED, LossReason.SPILLED)


def moved(reason: LossReason) -> Verdict:
    return Verdict(Placement.MOVED, reason)


class World:
    """One session and the fleet it lives on, with a clock of its own."""

    def __init__(self, **published: int) -> None:
        self.now_ms = 100_000.0
        self.weights = dict.fromkeys(SLOTS, 100) | published
        self.draining: set[str] = set()
        self.down: set[str] = set()
        self.computed = 1_000
        fleet = Fleet.unknown(SLOTS, follows_control_plane=True)
        self.affinity = Affinity(fleet, entries_max=100, idle_ms=IDLE_MS)
        self.late: list[Verdict] = []
        self.poll()
        self.wait(60_000)

    def wait(self, span_ms: float) -> None:
        self.now_ms += span_ms

    def poll(self) -> None:
        """One reading of everything, as it is now."""
        fleet, now_ms = self.affinity.fleet, self.now_ms
        for slot in SLOTS:
            heard = Refused("ConnectError") if slot in self.down else load_report(self.computed)
            fleet = fleet.heard(slot, heard, now_ms, now_ms)
        states = [
            PublishedSlot(slot, "draining" if slot in self.draining else "serving", weight)
            for slot, weight in self.weights.items()
        ]
        self.affinity.saw(fleet.published(states, now_ms, now_ms), now_ms)

    def serve(self, slot: str, pool: str = "fast") -> Verdict | None:
        """The verdict on a request 200 ms later; None: it waits, and comes to `late`."""
        self.wait(200)
        verdict = self.affinity.served(pool, "session", slot, self.now_ms)
        if isinstance(verdict, Departure):
            self.affinity.wait(verdict, self.late.append)
            return None
        return verdict

    def serve_and_poll(self, slot: str) -> Verdict:
        verdict = self.serve(slot)
        if verdict is None:
            self.wait(1_500)
            self.poll()
            (verdict,) = self.late
            self.late.clear()
        return verdict


def test_the_first_request_is_placed_and_the_next_ones_are_warm() -> None:
    world = World()
    assert [world.serve("a") for _ in range(3)] == [FIRST, WARM, WARM]


def test_each_pool_places_a_session_for_itself() -> None:
    world = World()
    assert world.serve("a", "fast") == FIRST
    assert world.serve("b", "large") == FIRST
    assert world.serve("a", "fast") == WARM


def test_leaving_a_healthy_slot_is_a_spill_once_it_was_read_anew() -> None:
    world = World()
    world.serve("a")
    world.poll()
    assert world.serve("b") is None
    for _ in range(2):
        world.wait(700)
        world.poll()
        assert world.late == []
    world.wait(700)
    world.poll()
    assert world.late == [SPILLED]


def test_a_spilled_session_is_warm_where_it_went_and_returns_home() -> None:
    world = World()
    world.serve("a")
    assert world.serve_and_poll("b") == SPILLED
    assert [world.serve(slot) for slot in ("b", "a", "a")] == [WARM, RETURNED, WARM]
    assert world.serve_and_poll("c") == SPILLED
    assert world.serve("a") == RETURNED


def test_a_session_may_return_before_its_spill_is_decided() -> None:
    world = World()
    world.serve("a")
    assert [world.serve(slot) for slot in ("b", "a")] == [None, RETURNED]
    world.wait(1_500)
    world.poll()
    assert world.late == [SPILLED]
    assert world.serve("a") == WARM


def drain(world: World) -> None:
    world.draining.add("a")


def kill(world: World) -> None:
    world.down.add("a")


def shrink(world: World) -> None:
    world.weights["a"] = 40


def grow_the_other(world: World) -> None:
    world.weights["b"] = 200


CHANGES = [
    (drain, LossReason.DRAINED),
    (kill, LossReason.UNAVAILABLE),
    (shrink, LossReason.PLACEMENT_CHANGED),
    (grow_the_other, LossReason.PLACEMENT_CHANGED),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_a_change_that_was_noticed_before_explains_a_departure(
    change: Callable[[World], None], reason: LossReason
) -> None:
    world = World()
    world.serve("a")
    change(world)
    world.poll()
    assert world.serve("b") == moved(reason)


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_a_change_that_is_noticed_only_afterwards_explains_it_too(
    change: Callable[[World], None], reason: LossReason
) -> None:
    """Envoy acts on a dead replica at once, a poll sees it up to a second later."""
    world = World()
    world.serve("a")
    change(world)
    assert world.serve_and_poll("b") == moved(reason)


def test_a_killed_replica_whose_status_still_answers_for_a_moment_is_no_spill() -> None:
    world = World()
    world.serve("a")
    assert world.serve("b") is None
    world.wait(900)
    world.poll()
    world.down.add("a")
    world.wait(900)
    world.poll()
    assert world.late == [moved(LossReason.UNAVAILABLE)]


def test_a_change_explains_one_departure_and_not_those_long_after_it() -> None:
    world = World()
    world.serve("a")
    world.weights["b"] = 200
    world.poll()
    for _ in range(20):
        world.serve("a")
    assert world.serve_and_poll("b") == SPILLED


def test_the_growth_of_a_third_slot_explains_nothing() -> None:
    world = World()
    world.serve("a")
    world.weights["c"] = 200
    world.poll()
    assert world.serve_and_poll("b") == SPILLED


@pytest.mark.parametrize("change", [drain, kill])
def test_a_moved_session_returns_when_its_home_is_back(change: Callable[[World], None]) -> None:
    world = World()
    world.serve("a")
    change(world)
    world.serve_and_poll("b")
    world.draining.clear()
    world.down.clear()
    world.poll()
    assert [world.serve(slot) for slot in ("b", "a", "a")] == [WARM, RETURNED, WARM]


def test_while_its_home_is_away_a_session_returns_to_the_slot_that_stands_in() -> None:
    world = World()
    world.serve("a")
    kill(world)
    assert world.serve_and_poll("b") == moved(LossReason.UNAVAILABLE)
    assert world.serve_and_poll("c") == SPILLED
    assert [world.serve(slot) for slot in ("b", "b")] == [RETURNED, WARM]


def test_a_change_of_weights_gives_a_new_home() -> None:
    world = World()
    world.serve("a")
    grow_the_other(world)
    world.serve_and_poll("b")
    for _ in range(8):
        world.wait(5_000)
        assert world.serve("b") == WARM
    assert world.serve_and_poll("a") == SPILLED
    assert world.serve("b") == RETURNED


def test_a_session_that_is_soon_back_after_a_change_has_returned_for_good() -> None:
    """What was taken for a new home was a spill that met a change."""
    world = World()
    world.serve("a")
    grow_the_other(world)
    assert world.serve_and_poll("b") == moved(LossReason.PLACEMENT_CHANGED)
    world.wait(5_000)
    assert [world.serve(slot) for slot in ("a", "a")] == [RETURNED, WARM]
    world.wait(5_000)
    assert world.serve_and_poll("b") == SPILLED


def test_a_replaced_process_under_the_same_slot_is_cold_once() -> None:
    world = World()
    world.serve("a")
    world.computed = 0
    world.poll()
    assert world.serve("a") == moved(LossReason.REPLACED)
    assert world.serve("a") == WARM


def test_a_replica_that_restarted_between_two_polls_draws_its_sessions_back() -> None:
    """Nothing saw it down; that its counters began anew shows that it was."""
    world = World()
    world.serve("b")
    assert world.serve("a") is None
    world.wait(1_500)
    fleet, now_ms = world.affinity.fleet, world.now_ms
    for slot, computed in (("a", 0), ("b", 1_000)):
        fleet = fleet.heard(slot, load_report(computed), now_ms, now_ms)
    states = [PublishedSlot(slot, "serving") for slot in SLOTS]
    world.affinity.saw(fleet.published(states, now_ms, now_ms), now_ms)
    assert world.late == [moved(LossReason.PLACEMENT_CHANGED)]


def test_a_session_that_was_idle_for_long_is_placed_as_if_for_the_first_time() -> None:
    world = World()
    world.serve("a")
    world.wait(IDLE_MS - 201)
    assert world.serve("a") == WARM
    world.wait(IDLE_MS)
    assert world.serve("b") == FIRST


def test_a_stay_of_ten_minutes_makes_a_home_while_the_old_one_could_have_it_back() -> None:
    world = World()
    world.serve("a")
    assert world.serve_and_poll("b") == SPILLED
    for _ in range(11):
        world.wait(60_000)
        world.serve("b")
    assert world.serve_and_poll("a") == SPILLED
    assert world.serve("b") == RETURNED


def test_a_stay_does_not_make_a_home_while_the_old_one_is_away() -> None:
    world = World()
    world.serve("a")
    kill(world)
    world.serve_and_poll("b")
    for _ in range(11):
        world.wait(60_000)
        world.serve("b")
    world.down.clear()
    world.poll()
    assert world.serve("a") == RETURNED


def test_slots_that_nothing_is_known_of_leave_a_move_unexplained() -> None:
    affinity = Affinity(Fleet.unknown([]), entries_max=10, idle_ms=IDLE_MS)
    affinity.served("fast", "session", "x", 0.0)
    assert affinity.served("fast", "session", "y", 1.0) == moved(LossReason.UNEXPLAINED)


def test_a_silent_replica_is_unavailable() -> None:
    world = World()
    world.serve("a")
    fleet = world.affinity.fleet.heard("a", Silent("ReadTimeout"), world.now_ms, world.now_ms)
    world.affinity.saw(fleet, world.now_ms)
    assert world.serve("b") == moved(LossReason.UNAVAILABLE)


def test_without_a_control_plane_to_read_a_drain_looks_like_a_spill() -> None:
    """What cannot be told, held by a test so that the document stays true."""
    fleet = Fleet.unknown(SLOTS)
    for slot in SLOTS:
        fleet = fleet.heard(slot, load_report(), 0.0, 0.0)
    affinity = Affinity(fleet, entries_max=10, idle_ms=IDLE_MS)
    affinity.served("fast", "session", "a", 60_000.0)
    departure = affinity.served("fast", "session", "b", 60_200.0)
    assert isinstance(departure, Departure)
    verdicts: list[Verdict] = []
    affinity.wait(departure, verdicts.append)
    affinity.saw(fleet.heard("a", load_report(), 61_700.0, 61_701.0), 61_701.0)
    assert verdicts == [SPILLED]
