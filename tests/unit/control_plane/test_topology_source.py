import os
from pathlib import Path

import pytest

from control_plane.topology import TopologyError
from control_plane.topology_source import TopologyFile
from tests.unit.control_plane.samples import document, encode


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "topology.yaml"
    path.write_bytes(encode(document()))
    return path


def test_an_unchanged_file_is_no_news(path: Path) -> None:
    source = TopologyFile(path)
    assert not source.poll()
    os.utime(path)
    assert not source.poll()


def test_a_changed_file_gives_the_new_topology_once(path: Path) -> None:
    source = TopologyFile(path)
    path.write_bytes(encode(document() | {"hash_balance_factor": 3.0}))
    assert source.poll()
    assert source.topology.hash_balance_factor == 3.0
    assert not source.poll()


def test_a_bad_file_keeps_the_last_good_one_and_is_counted_once(path: Path) -> None:
    source = TopologyFile(path)
    good = source.topology
    path.write_text("topology_version: 7")
    assert (source.poll(), source.poll()) == (False, False)
    assert source.topology is good
    assert "got 7" in source.error
    assert source.errors_total == 1


def test_the_good_file_put_back_clears_the_error(path: Path) -> None:
    source = TopologyFile(path)
    path.write_text("surprise: 1")
    source.poll()
    path.write_bytes(encode(document()))
    source.poll()
    assert source.error == ""


def test_a_missing_file_keeps_the_last_good_one(path: Path) -> None:
    source = TopologyFile(path)
    path.unlink()
    assert (source.poll(), source.poll()) == (False, False)
    assert "put the file back" in source.error
    assert source.errors_total == 1
    path.write_bytes(encode(document()))
    source.poll()
    assert source.error == ""


@pytest.mark.parametrize("field", ["control_plane", "control_plane_status"])
def test_its_own_addresses_cannot_change_under_way(path: Path, field: str) -> None:
    source = TopologyFile(path)
    path.write_bytes(encode(document() | {field: {"address": "127.0.0.1", "port": 9999}}))
    assert not source.poll()
    assert f"{field} cannot change" in source.error


def test_there_is_no_start_from_a_bad_file(path: Path) -> None:
    path.write_text("topology_version: 1")
    with pytest.raises(TopologyError, match="missing required field"):
        TopologyFile(path)
