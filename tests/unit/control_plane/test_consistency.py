from collections.abc import Callable
from typing import Any

import pytest

from control_plane.consistency import InconsistentSnapshotError, check
from control_plane.resources import (
    CLUSTER,
    ENDPOINTS,
    LISTENER,
    ROUTES,
    Resource,
    decode,
)
from control_plane.snapshot import Snapshot, make_snapshot
from tests.unit.control_plane.samples import snapshot

Members = tuple[Resource, ...]


def changed(type_url: str, change: Callable[[Members], Members]) -> Snapshot:
    good = snapshot()
    return make_snapshot({**good.resources, type_url: change(good.resources[type_url])})


def without(name: str) -> Callable[[Members], Members]:
    return lambda members: tuple(m for m in members if m.name != name)


def edited(type_url: str, name: str, edit: Callable[[Any], None]) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        message = decode(type_url, next(m for m in members if m.name == name))
        edit(message)
        body = message.SerializeToString(deterministic=True)
        return (*without(name)(members), Resource(name, body))

    return change


def faults(inconsistent: Snapshot) -> str:
    with pytest.raises(InconsistentSnapshotError) as refused:
        check(inconsistent)
    return str(refused.value)


def test_what_is_built_from_a_topology_is_consistent() -> None:
    check(snapshot())


def test_a_route_to_a_missing_cluster_is_found() -> None:
    found = faults(changed(CLUSTER, without("pool-fast")))
    assert "routes inference name the missing cluster pool-fast" in found
    assert "endpoint assignment pool-fast belongs to no cluster" in found


def test_a_cluster_without_its_assignment_is_found() -> None:
    found = faults(changed(ENDPOINTS, without("pool-large")))
    assert "cluster pool-large has no endpoint assignment" in found


def test_a_listener_without_its_routes_is_found() -> None:
    found = faults(changed(ROUTES, without("edge")))
    assert "listener edge names the missing routes edge" in found


def test_routes_that_no_listener_uses_are_found() -> None:
    assert "routes edge belong to no listener" in faults(changed(LISTENER, without("edge")))


def test_two_resources_of_one_name_are_found() -> None:
    found = faults(changed(CLUSTER, lambda members: (*members, members[0])))
    assert "CDS resource orchestrator occurs more than once" in found


def test_two_listeners_on_one_address_are_found() -> None:
    def move(listener: Any) -> None:
        listener.address.socket_address.port_value = 8080

    found = faults(changed(LISTENER, edited(LISTENER, "inference", move)))
    assert "two listeners want 127.0.0.1:8080" in found


def test_one_process_in_two_places_is_found() -> None:
    def move(assignment: Any) -> None:
        first, second = assignment.endpoints[0].lb_endpoints
        second.endpoint.CopyFrom(first.endpoint)

    found = faults(changed(ENDPOINTS, edited(ENDPOINTS, "pool-fast", move)))
    assert "lists 127.0.0.1:8201 more than once" in found


def test_one_place_for_two_processes_is_found() -> None:
    def take_place(assignment: Any) -> None:
        first, second = assignment.endpoints[0].lb_endpoints
        second.metadata.CopyFrom(first.metadata)

    found = faults(changed(ENDPOINTS, edited(ENDPOINTS, "pool-fast", take_place)))
    assert "gives the hash key 'slot-0' more than once" in found


def test_a_process_without_a_place_is_found() -> None:
    def forget(assignment: Any) -> None:
        assignment.endpoints[0].lb_endpoints[0].ClearField("metadata")

    found = faults(changed(ENDPOINTS, edited(ENDPOINTS, "pool-fast", forget)))
    assert "an endpoint without a hash key" in found


def test_all_faults_are_named_at_once_with_the_next_step() -> None:
    found = faults(changed(CLUSTER, lambda _members: ()))
    assert found.count("missing cluster") == 3
    assert "the last good one stays" in found
