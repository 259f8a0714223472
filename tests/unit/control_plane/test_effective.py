import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.consistency import check
from control_plane.effective import (
    QUIET_S,
    advance,
    effective_topology,
    factor_of,
    first_bound,
    in_flight_of,
)
from control_plane.fleet_state import (
    Drained,
    Draining,
    Eviction,
    FleetState,
    Ramping,
    Serving,
    Situation,
    SlotRecord,
)
from control_plane.snapshot import build_snapshot
from tests.unit.control_plane.situations import NOW_S, SLOTS, seen, situation, unknown

DRAINING = Draining(NOW_S, NOW_S + 60)


def after(at: Situation, *, is_accepted: bool = True) -> SlotRecord:
    """The record of slot-0 one step on."""
    return advance(at, is_accepted=is_accepted).slots["slot-0"]


def later(at: Situation, elapsed_s: float, record: SlotRecord, **load: int) -> Situation:
    """The same with another record of slot-0 and a fresh report."""
    now_s = NOW_S + elapsed_s
    state = at.with_record("slot-0", record)
    fresh = {**at.observations, "slot-0": seen(at_s=now_s, **load)}
    return Situation(at.topology, state, fresh, now_s)


def test_a_drain_ends_when_it_was_quiet_for_a_second_of_reports() -> None:
    at = situation({"slot-0": DRAINING})
    quiet = after(at)
    assert quiet == msgspec.structs.replace(DRAINING, quiet_since_s=NOW_S)
    assert after(later(at, QUIET_S - 0.1, quiet)) == quiet
    assert after(later(at, QUIET_S, quiet)) == Drained(NOW_S, NOW_S + QUIET_S, "finish")


def test_a_report_from_before_the_quiet_ends_no_drain() -> None:
    quiet = msgspec.structs.replace(DRAINING, quiet_since_s=NOW_S)
    at = situation({"slot-0": quiet}, {"slot-0": seen(at_s=NOW_S + 0.9)}, now_s=NOW_S + 30)
    assert after(at) == quiet


@pytest.mark.parametrize("load", [{"live": 1}, {"live": 0, "waiting": 1}])
def test_a_live_or_waiting_sequence_keeps_a_drain_going(load: dict[str, int]) -> None:
    quiet = msgspec.structs.replace(DRAINING, quiet_since_s=NOW_S)
    assert after(later(situation(), QUIET_S, quiet, **load)) == DRAINING


def test_a_drain_does_not_end_before_every_envoy_has_accepted_it() -> None:
    quiet = msgspec.structs.replace(DRAINING, quiet_since_s=NOW_S)
    assert after(later(situation(), 30, quiet), is_accepted=False) == DRAINING


def test_an_unknown_load_is_not_quiet() -> None:
    assert after(situation({"slot-0": DRAINING}, {"slot-0": unknown()})) == DRAINING


def test_the_deadline_ends_a_drain_and_says_what_it_cut_off() -> None:
    busy = later(situation(), 60, DRAINING, live=2, waiting=1)
    assert after(busy) == Drained(NOW_S, NOW_S + 60, "deadline", left=3)
    silent = situation({"slot-0": DRAINING}, {"slot-0": unknown()}, now_s=NOW_S + 60)
    assert after(silent) == Drained(NOW_S, NOW_S + 60, "deadline", left=None)


def test_an_added_slot_waits_until_it_is_ready_and_then_ramps_to_full_weight() -> None:
    at = situation(observations={"slot-0": unknown()})
    slots = {slot: record for slot, record in at.state.slots.items() if slot != "slot-0"}
    added = Situation(at.topology, FleetState(1, slots), at.observations, NOW_S)
    assert after(added) == Ramping()
    assert after(later(at, 500, Ramping())) == Ramping(NOW_S + 500)
    assert after(later(at, 299, Ramping(NOW_S))) == Ramping(NOW_S)
    assert after(later(at, 300, Ramping(NOW_S))) == Serving()


def test_a_slot_that_leaves_the_document_is_forgotten() -> None:
    at = situation()
    state = FleetState(1, {**at.state.slots, "slot-9": Serving()})
    moved = advance(Situation(at.topology, state, {}, NOW_S), is_accepted=True)
    assert set(moved.slots) == set(SLOTS)


def test_a_slot_replaced_under_its_name_keeps_its_full_weight() -> None:
    at = situation(observations={"slot-0": unknown()})
    assert after(at) == Serving()
    assert effective_topology(at).replicas[0].weight == 100


def test_what_the_document_drains_ramps_when_the_document_lets_it_serve() -> None:
    document = [
        {"slot": "slot-0", "address": "::1", "port": 1, "status_port": 2, "state": "draining"}
    ]
    pools = [{"name": "fast", "slots": ["slot-0"]}]
    assert after(situation(replicas=document, pools=pools)) == Ramping()
    document[0]["state"] = "serving"
    back = situation({"slot-0": Ramping()}, replicas=document, pools=pools)
    assert after(back) == Ramping(NOW_S)


def test_moved_sessions_are_forgotten_after_a_minute() -> None:
    evictions = (Eviction(NOW_S - 60, "slot-1", 5), Eviction(NOW_S - 59, "slot-2", 5))
    at = situation()
    state = msgspec.structs.replace(at.state, evictions=evictions)
    moved = advance(Situation(at.topology, state, {}, NOW_S), is_accepted=True)
    assert moved.evictions == evictions[1:]


def test_what_drains_gets_no_stream_and_what_ramps_a_share_of_its_weight() -> None:
    records = {
        "slot-0": DRAINING,
        "slot-1": Drained(NOW_S, NOW_S, "finish"),
        "slot-2": Ramping(NOW_S - 100),
    }
    replicas = effective_topology(situation(records)).replicas
    assert [(r.state, r.weight) for r in replicas] == [
        ("draining", 100),
        ("draining", 100),
        ("serving", 40),
        ("serving", 100),
    ]


def test_an_untouched_fleet_is_the_document_with_a_factor() -> None:
    at = situation()
    assert effective_topology(at).replicas == at.topology.replicas
    assert effective_topology(at).pools[0].hash_balance_factor == 2.0


def test_a_pools_own_factor_wins_then_the_documents_then_the_loads() -> None:
    own = [{"name": "fast", "slots": list(SLOTS), "hash_balance_factor": 3.0}]
    own_factor = situation(pools=own)
    assert factor_of(own_factor, own_factor.topology.pools[0]) == 3.0
    fixed = situation(hash_balance_factor=1.5)
    assert factor_of(fixed, fixed.topology.pools[0]) == 1.5
    at = situation()
    for last, published in ((1.75, 1.75), (9.0, 2.0), (1.0, 1.25)):
        state = msgspec.structs.replace(at.state, factors={"fast": last})
        measured = Situation(at.topology, state, {}, NOW_S)
        assert factor_of(measured, at.topology.pools[0]) == published
    assert first_bound(at, at.topology.pools[0]).factor == 2.0


def test_load_is_counted_per_serving_replica_that_reports_and_per_envoy() -> None:
    observations = {
        "slot-0": seen(live=30, waiting=10),
        "slot-1": seen(live=20),
        "slot-2": unknown(),
        "slot-3": seen(live=500),
    }
    at = situation({"slot-3": DRAINING}, observations)
    [pool] = at.topology.pools
    assert in_flight_of(at, pool, envoys=1) == 30.0
    assert in_flight_of(at, pool, envoys=3) == 10.0
    assert in_flight_of(at, pool, envoys=0) == 30.0
    assert in_flight_of(situation(observations=dict.fromkeys(SLOTS, unknown())), pool, 1) is None


times = st.floats(0, 2_000_000)
records = st.one_of(
    st.just(Serving()),
    st.builds(Ramping, st.none() | times),
    st.builds(Draining, times, times, st.booleans(), st.none() | times),
    st.builds(Drained, times, times, st.sampled_from(["finish", "deadline"]), st.none()),
)


@given(
    st.lists(records, min_size=4, max_size=4),
    st.lists(st.integers(1, 1000), min_size=4, max_size=4),
    times,
    st.floats(0.5, 200),
    st.booleans(),
)
def test_every_state_gives_a_snapshot_that_can_be_published(
    each: list[SlotRecord], weights: list[int], now_s: float, factor: float, is_accepted: bool
) -> None:
    """`TopologyFile` checks the document's own snapshot only and relies on this."""
    at = situation(dict(zip(SLOTS, each, strict=True)), now_s=now_s)
    weighted = [
        msgspec.structs.replace(replica, weight=weight)
        for replica, weight in zip(at.topology.replicas, weights, strict=True)
    ]
    fleet = msgspec.structs.replace(at.topology, replicas=tuple(weighted))
    state = msgspec.structs.replace(at.state, factors={"fast": factor})
    moved = Situation(fleet, state, at.observations, now_s)
    state = advance(moved, is_accepted=is_accepted)
    check(build_snapshot(effective_topology(Situation(fleet, state, at.observations, now_s))))
