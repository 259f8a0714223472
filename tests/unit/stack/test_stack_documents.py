"""What the renderers write is read by the readers that it is written for."""

from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.topology import parse_topology
from orchestrator.settings import parse_settings
from scripts.stack.documents import to_yaml, topology, worker_settings
from scripts.stack.layout import StackConfig, ports_of

CONFIG = StackConfig(run_dir="/srv/stack", engine_dir="/srv/engine", replicas=3, workers=2)


def test_the_control_plane_accepts_the_topology() -> None:
    read = parse_topology(to_yaml(topology(CONFIG)).encode())
    ports = ports_of(CONFIG)
    assert read.edge.port == 8080
    assert tuple(replica.port for replica in read.replicas) == ports.replicas
    assert tuple(replica.status_port for replica in read.replicas) == ports.replica_status
    assert tuple(worker.port for worker in read.workers) == ports.workers


def test_every_replica_stands_behind_every_pool() -> None:
    read = parse_topology(to_yaml(topology(CONFIG)).encode())
    slots = tuple(replica.slot for replica in read.replicas)
    assert [pool.name for pool in read.pools] == ["fast", "large"]
    assert all(pool.slots == slots for pool in read.pools)


@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_accepts_its_settings_and_listens_where_envoy_looks_for_it(index: int) -> None:
    settings = parse_settings(to_yaml(worker_settings(CONFIG, index)))
    worker = parse_topology(to_yaml(topology(CONFIG)).encode()).workers[index]
    assert (settings.worker, settings.listen.port) == (worker.name, worker.port)
    assert settings.inference.port == topology(CONFIG)["inference"]["port"]


def test_a_worker_is_told_the_status_listener_of_every_slot() -> None:
    settings = parse_settings(to_yaml(worker_settings(CONFIG, 0)))
    assert [(replica.slot, replica.status_url) for replica in settings.replicas] == [
        (f"slot-{index}", f"http://127.0.0.1:{port}")
        for index, port in enumerate(ports_of(CONFIG).replica_status)
    ]


def test_the_workers_of_one_stack_share_one_session_key() -> None:
    files = {worker_settings(CONFIG, index)["session_secret_file"] for index in (0, 1)}
    assert files == {str(Path("/srv/stack/secrets/session.key"))}


def test_recipe_and_placement_reach_those_who_use_them() -> None:
    config = replace(CONFIG, recipe="volatile@1", placement="round_robin")
    assert parse_settings(to_yaml(worker_settings(config, 0))).recipe == "volatile@1"
    assert parse_topology(to_yaml(topology(config)).encode()).placement == "round_robin"


def test_workers_know_where_the_control_plane_says_what_it_has_published() -> None:
    url = worker_settings(CONFIG, 0)["control_plane_status_url"]
    assert url == f"http://127.0.0.1:{ports_of(CONFIG).control_plane_status}"
