from pathlib import Path

import pytest

from control_plane.drains import RefusedError
from control_plane.fleet import Fleet
from control_plane.fleet_state import Drained, Draining, Ramping, Serving
from control_plane.load_bound import HOLD_S
from control_plane.snapshot import build_snapshot
from control_plane.state_file import StateError, StateFile
from control_plane.topology_source import TopologyFile
from tests.unit.control_plane.samples import document, encode
from tests.unit.control_plane.situations import seen

NOW_S = 1_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


def write(folder: Path, replicas: int = 2, **changes: object) -> None:
    changed = document(replicas) | changes
    changed["pools"] = [{"name": "fast", "slots": [f"slot-{i}" for i in range(replicas)]}]
    (folder / "topology.yaml").write_bytes(encode(changed))


def start(folder: Path, now_s: float = NOW_S) -> Fleet:
    return Fleet(TopologyFile(folder / "topology.yaml"), StateFile(folder / "state.json"), now_s)


def look(fleet: Fleet, now_s: float, live: int = 0, envoys: int = 1) -> None:
    slots = [replica.slot for replica in fleet.topology.replicas]
    fleet.observed({slot: seen(live, at_s=now_s) for slot in slots}, envoys=envoys, now_s=now_s)


def force(fleet: Fleet, slot: str, now_s: float = NOW_S) -> None:
    fleet.drain(slot, force=True, deadline_s=None, now_s=now_s)


def published(fleet: Fleet) -> str:
    return fleet.publisher.snapshot.version


def test_a_fleet_never_seen_before_serves_as_the_document_says(folder: Path) -> None:
    fleet = start(folder)
    assert set(fleet.state.slots.values()) == {Serving()}
    assert published(fleet) == build_snapshot(fleet.topology).version


def test_a_drain_is_published_and_on_disk_before_it_is_answered(folder: Path) -> None:
    fleet = start(folder)
    before = published(fleet)
    force(fleet, "slot-0")
    assert published(fleet) != before
    assert StateFile(folder / "state.json").load() == fleet.state


def test_a_drain_that_cannot_be_saved_changes_nothing(folder: Path) -> None:
    source = TopologyFile(folder / "topology.yaml")
    fleet = Fleet(source, StateFile(folder / "missing" / "state.json"), NOW_S)
    before = published(fleet)
    with pytest.raises(StateError):
        force(fleet, "slot-0")
    assert fleet.state.slots["slot-0"] == Serving()
    assert (published(fleet), fleet.drains_total["forced"]) == (before, 0)


def test_a_refused_drain_changes_nothing_and_is_counted(folder: Path) -> None:
    fleet = start(folder)
    before = published(fleet)
    with pytest.raises(RefusedError):
        fleet.drain("slot-0", force=False, deadline_s=None, now_s=NOW_S)
    assert (published(fleet), fleet.drains_total["refused"]) == (before, 1)


def test_asking_twice_counts_once(folder: Path) -> None:
    fleet = start(folder)
    force(fleet, "slot-0")
    force(fleet, "slot-0", NOW_S + 1)
    assert fleet.drains_total["forced"] == 1


def test_a_restart_keeps_drains_ramps_and_factors(folder: Path) -> None:
    fleet = start(folder)
    force(fleet, "slot-0")
    for second in range(200):
        look(fleet, NOW_S + second, live=50)
    fleet.tick(is_accepted=False, now_s=NOW_S + 59)
    assert fleet.state.factors == {"fast": 1.25}
    again = start(folder, NOW_S + 59)
    assert again.state == fleet.state
    assert published(again) == published(fleet), "it publishes at once what was in force"


def test_a_drain_and_its_undrain_go_their_whole_way(folder: Path) -> None:
    fleet = start(folder)
    force(fleet, "slot-0")
    for tenth in range(30):
        if tenth % 10 == 0:
            look(fleet, NOW_S + tenth / 10)
        fleet.tick(is_accepted=True, now_s=NOW_S + tenth / 10)
    assert isinstance(fleet.state.slots["slot-0"], Drained)

    fleet.undrain("slot-0", now_s=NOW_S + 3)
    weights = []
    for second in range(3, 310):
        look(fleet, NOW_S + second)
        fleet.tick(is_accepted=True, now_s=NOW_S + second)
        weights.append(fleet.effective.replicas[0].weight)
    assert sorted(set(weights)) == list(range(10, 101, 10))
    assert weights == sorted(weights)
    assert fleet.state.slots["slot-0"] == Serving()


def test_a_ramp_publishes_as_often_as_its_weight_changes(folder: Path) -> None:
    fleet = start(folder)
    force(fleet, "slot-0")
    fleet.undrain("slot-0", now_s=NOW_S)
    look(fleet, NOW_S)
    versions = []
    for tenth in range(3100):
        fleet.tick(is_accepted=True, now_s=NOW_S + tenth / 10)
        if not versions or versions[-1] != published(fleet):
            versions.append(published(fleet))
    assert len(versions) == 10, "the first weight and nine updates"


def test_a_slot_added_to_the_document_ramps_and_the_others_stay(folder: Path) -> None:
    fleet = start(folder)
    write(folder, replicas=3)
    fleet.tick(is_accepted=True, now_s=NOW_S + 1)
    assert [r.weight for r in fleet.effective.replicas] == [100, 100, 10]
    assert fleet.state.slots["slot-2"] == Ramping()
    look(fleet, NOW_S + 60)
    fleet.tick(is_accepted=True, now_s=NOW_S + 60)
    assert fleet.state.slots["slot-2"] == Ramping(NOW_S + 60)


def test_a_slot_added_while_the_control_plane_was_down_ramps(folder: Path) -> None:
    fleet = start(folder)
    fleet.tick(is_accepted=True, now_s=NOW_S)
    write(folder, replicas=3)
    assert start(folder).effective.replicas[2].weight == 10


def test_a_drain_outlives_a_change_of_the_document(folder: Path) -> None:
    fleet = start(folder)
    force(fleet, "slot-0")
    write(folder, replicas=3)
    fleet.tick(is_accepted=False, now_s=NOW_S + 1)
    assert isinstance(fleet.state.slots["slot-0"], Draining)
    assert fleet.effective.replicas[0].state == "draining"


def test_the_factor_follows_the_load_per_replica_and_envoy(folder: Path) -> None:
    fleet = start(folder)
    start_version = published(fleet)
    for second in range(60):
        look(fleet, NOW_S + second, live=60, envoys=2)  # 30 per replica and Envoy
        fleet.tick(is_accepted=True, now_s=NOW_S + second)
        if second < HOLD_S:
            assert published(fleet) == start_version
    assert fleet.effective.pools[0].hash_balance_factor == 1.5
    assert fleet.bounds["fast"].in_flight == pytest.approx(30.0)


def test_a_fixed_factor_follows_nothing(folder: Path) -> None:
    write(folder, hash_balance_factor=3.0)
    fleet = start(folder)
    for second in range(100):
        look(fleet, NOW_S + second, live=500)
    fleet.tick(is_accepted=True, now_s=NOW_S + 100)
    assert fleet.effective.pools[0].hash_balance_factor == 3.0


def test_a_state_that_cannot_be_saved_by_itself_is_said_once_and_does_not_stop_it(
    folder: Path,
) -> None:
    source = TopologyFile(folder / "topology.yaml")
    fleet = Fleet(source, StateFile(folder / "missing" / "state.json"), NOW_S)
    for second in range(3):
        fleet.tick(is_accepted=True, now_s=NOW_S + second)
    assert "cannot be written" in fleet.state_error
    assert fleet.state_errors_total == 1
    (folder / "missing").mkdir()
    fleet.tick(is_accepted=True, now_s=NOW_S + 9)
    assert fleet.state_error == ""
