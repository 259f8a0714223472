from pathlib import Path

import pytest

from control_plane.fleet_state import (
    Drained,
    Draining,
    Eviction,
    FleetState,
    Ramping,
    Serving,
)
from control_plane.state_file import BYTES_MAX, StateError, StateFile

STATE = FleetState(
    1,
    {
        "slot-0": Serving(),
        "slot-1": Ramping(12.5),
        "slot-2": Draining(1.0, 61.0, is_forced=True, quiet_since_s=2.0),
        "slot-3": Drained(1.0, 2.0, "deadline", None),
    },
    (Eviction(1.0, "slot-2", None), Eviction(1.5, "slot-3", 7)),
    {"fast": 1.75},
)
OTHER = FleetState(1, {"slot-0": Draining(1.0, 2.0)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "topology.state.json"


def test_a_state_is_read_back_as_it_was_written(path: Path) -> None:
    StateFile(path).save(STATE)
    assert StateFile(path).load() == STATE


def test_no_file_is_no_state(path: Path) -> None:
    assert StateFile(path).load() is None


@pytest.mark.parametrize("damage", [b"", b"{", b'{"state_version": 2, "slots": {}}', b"\xff" * 9])
def test_a_damaged_state_is_replaced_by_the_one_before_and_said(path: Path, damage: bytes) -> None:
    file = StateFile(path)
    file.save(STATE)
    file.save(OTHER)
    path.write_bytes(damage)
    again = StateFile(path)
    assert again.load() == STATE
    assert "topology.state.json.previous is in force" in again.note


def test_the_good_copy_outlives_the_next_write(path: Path) -> None:
    file = StateFile(path)
    file.save(STATE)
    file.save(OTHER)
    path.write_bytes(b"{")
    again = StateFile(path)
    again.load()
    again.save(OTHER)
    assert again.note == ""
    path.write_bytes(b"{")
    assert StateFile(path).load() == STATE, "the damaged one has not taken its place"


def test_without_a_usable_copy_there_is_no_start(path: Path) -> None:
    path.write_bytes(b"{")
    with pytest.raises(StateError, match="delete both to start with every slot serving"):
        StateFile(path).load()


def test_an_oversized_state_is_not_read(path: Path) -> None:
    path.write_bytes(b" " * (BYTES_MAX + 1))
    with pytest.raises(StateError, match=f"at most {BYTES_MAX} bytes"):
        StateFile(path).load()


def test_a_folder_that_cannot_be_written_is_named_with_the_next_step(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "missing" / "state.json")
    with pytest.raises(StateError, match=r"cannot be written: No such file .* --state"):
        file.save(STATE)
