import msgspec
import pytest

from control_plane.drains import RefusedError, UnknownSlotError, drain, undrain
from control_plane.fleet_state import (
    Drained,
    Draining,
    Eviction,
    Ramping,
    Serving,
    Situation,
)
from tests.unit.control_plane.situations import NOW_S, SLOTS, seen, situation, unknown

DRAINING = Draining(NOW_S - 5, NOW_S + 55)
DRAINED = Drained(NOW_S - 9, NOW_S - 5, "finish")


def refusal(at: Situation, slot: str = "slot-0") -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        drain(at, slot)
    return refused.value


def evicted(at: Situation, *evictions: Eviction) -> Situation:
    state = msgspec.structs.replace(at.state, evictions=evictions)
    return Situation(at.topology, state, at.observations, at.now_s)


def test_a_drain_begins_at_once_and_ends_at_the_default_deadline() -> None:
    state = drain(situation(), "slot-0")
    assert state.slots["slot-0"] == Draining(NOW_S, NOW_S + 60)
    assert {state.slots[slot] for slot in SLOTS[1:]} == {Serving()}


def test_a_drain_takes_the_deadline_that_is_given() -> None:
    state = drain(situation(), "slot-0", deadline_s=5)
    assert state.slots["slot-0"] == Draining(NOW_S, NOW_S + 5)


def test_a_drain_remembers_the_warm_sessions_that_it_moves() -> None:
    assert drain(situation(), "slot-0").evictions == (Eviction(NOW_S, "slot-0", 25),)


def test_draining_twice_keeps_the_first_drain() -> None:
    at = situation({"slot-0": DRAINING})
    assert drain(at, "slot-0") == at.state


def test_a_second_drain_may_bring_another_deadline_and_force() -> None:
    state = drain(situation({"slot-0": DRAINING}), "slot-0", force=True, deadline_s=2)
    assert state.slots["slot-0"] == Draining(NOW_S - 5, NOW_S + 2, is_forced=True)
    assert state.evictions == ()


def test_what_is_drained_stays_drained() -> None:
    at = situation({"slot-0": DRAINED})
    assert drain(at, "slot-0", deadline_s=5) == at.state


def test_an_unknown_slot_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownSlotError, match=r"one of slot-0, .*slot-3, got 'slot-9'"):
        drain(situation(), "slot-9")


def test_a_pool_keeps_its_floor_and_the_refusal_says_limit_actual_and_next_step() -> None:
    at = situation({"slot-1": DRAINED}, floor=3)
    refused = refusal(at)
    assert refused.reason == "floor"
    for part in ("floor of 3", "would leave 2", "add or undrain a replica", "force it"):
        assert part in str(refused)


def test_a_replica_that_is_not_ready_does_not_count_for_the_floor() -> None:
    at = situation(observations={"slot-1": unknown(), "slot-2": seen(ready=False)}, floor=2)
    assert refusal(at).reason == "floor"


def test_a_replica_that_the_document_drains_does_not_count_for_the_floor() -> None:
    replicas = [
        {"slot": slot, "address": "::1", "port": 1 + i, "status_port": 9 + i, "state": state}
        for i, (slot, state) in enumerate(
            zip(SLOTS, ["serving"] * 2 + ["draining"] * 2, strict=True)
        )
    ]
    assert refusal(situation(replicas=replicas, floor=2)).reason == "floor"


def test_the_floor_is_kept_in_every_pool_of_the_slot() -> None:
    pools = [{"name": "fast", "slots": list(SLOTS)}, {"name": "large", "slots": ["slot-0"]}]
    assert "pool large its floor of 1" in str(refusal(situation(pools=pools)))


def test_a_quarter_of_the_warm_sessions_may_move_per_minute_and_no_more() -> None:
    assert drain(situation(), "slot-0").slots["slot-0"] == Draining(NOW_S, NOW_S + 60)
    refused = refusal(situation(observations={"slot-0": seen(warm=26)}))
    assert refused.reason == "warm_sessions"
    for part in ("may move 25 warm", "25% of the 101 of pool fast", "would move 26", "force it"):
        assert part in str(refused)


def test_drains_of_the_last_minute_count_and_older_ones_do_not() -> None:
    one = Eviction(NOW_S - 59, "slot-3", 1)
    refused = refusal(evicted(situation(), one))
    assert "would move 25 after 1 within the last minute" in str(refused)
    old = Eviction(NOW_S - 60, "slot-3", 25)
    assert "slot-0" in drain(evicted(situation(), old), "slot-0").slots


def test_the_share_is_the_topologys() -> None:
    limits = {"warm_share_per_minute": 0.5}
    at = situation(observations={"slot-0": seen(warm=75)}, drain=limits)
    assert isinstance(drain(at, "slot-0").slots["slot-0"], Draining)


def test_an_unknown_load_counts_as_the_worst() -> None:
    assert refusal(situation(observations={"slot-0": unknown()})).reason == "load_unknown"
    silent = situation(observations={"slot-1": seen(warm=25), "slot-2": unknown()})
    assert refusal(silent).reason == "warm_sessions", "the total counts only what is known"
    unmeasured = evicted(situation(), Eviction(NOW_S - 1, "slot-3", None))
    assert refusal(unmeasured).reason == "load_unknown"


def test_force_drains_what_would_be_refused() -> None:
    at = situation(observations=dict.fromkeys(SLOTS, unknown()), floor=4)
    state = drain(at, "slot-0", force=True)
    assert state.slots["slot-0"] == Draining(NOW_S, NOW_S + 60, is_forced=True)
    assert state.evictions == (Eviction(NOW_S, "slot-0", None),)


@pytest.mark.parametrize("record", [DRAINING, DRAINED])
def test_an_undrained_slot_waits_to_ramp(record: Draining | Drained) -> None:
    assert undrain(situation({"slot-0": record}), "slot-0").slots["slot-0"] == Ramping()


@pytest.mark.parametrize("record", [Serving(), Ramping(), Ramping(NOW_S)])
def test_undraining_what_serves_changes_nothing(record: Serving | Ramping) -> None:
    at = situation({"slot-0": record})
    assert undrain(at, "slot-0") == at.state


def test_what_the_document_drains_cannot_be_undrained_here() -> None:
    replicas = [
        {"slot": "slot-0", "address": "::1", "port": 1, "status_port": 2, "state": "draining"}
    ]
    at = situation(replicas=replicas, pools=[{"name": "fast", "slots": ["slot-0"]}])
    with pytest.raises(RefusedError, match="change its state there") as refused:
        undrain(at, "slot-0")
    assert refused.value.reason == "document"
