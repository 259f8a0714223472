from typing import Any

import pytest
from google.protobuf import json_format

from control_plane.resources import CLUSTER, ENDPOINTS, LISTENER, PUSH_ORDER, ROUTES, decode
from control_plane.snapshot import build_snapshot
from tests.unit.control_plane.samples import document, encode, snapshot, topology


def resource(type_url: str, name: str, **changes: Any) -> Any:
    """One resource as plain values."""
    members = {r.name: r for r in snapshot(**changes).resources[type_url]}
    message = decode(type_url, members[name])
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def endpoints(assignment: Any) -> dict[str, Any]:
    """The endpoints by their place."""
    return {
        member["metadata"]["filter_metadata"]["envoy.lb"]["hash_key"]: member
        for member in assignment["endpoints"][0]["lb_endpoints"]
    }


def test_the_same_topology_gives_the_same_bytes_and_version() -> None:
    assert snapshot() == snapshot()
    assert snapshot().version == snapshot().version


@pytest.mark.parametrize(
    "changes",
    [
        {"hash_balance_factor": 1.25},
        {"placement": "ring_hash"},
        {"edge": {"address": "127.0.0.1", "port": 8081}},
        {"replicas": [*document()["replicas"][:1], document()["replicas"][1] | {"weight": 99}]},
        {"pools": [*document()["pools"][::-1], {"name": "control", "slots": ["slot-0"]}]},
    ],
)
def test_every_change_gives_another_version(changes: dict[str, Any]) -> None:
    assert snapshot(**changes).version != snapshot().version


def test_the_order_of_pools_is_no_change_of_any_cluster() -> None:
    turned = snapshot(pools=document()["pools"][::-1])
    for type_url in (CLUSTER, ENDPOINTS, LISTENER):
        assert turned.resources[type_url] == snapshot().resources[type_url]


def test_a_snapshot_cannot_be_changed() -> None:
    made = snapshot()
    with pytest.raises(TypeError):
        made.resources[CLUSTER] = ()  # type: ignore[index]  # that it is refused is the point
    with pytest.raises(AttributeError):
        made.version = ""  # type: ignore[misc]  # that it is refused is the point


def test_building_leaves_the_topology_as_it_was() -> None:
    given, untouched = topology(), topology()
    build_snapshot(given)
    assert given == untouched


def test_there_is_one_cluster_with_endpoints_per_pool_and_one_for_the_orchestrator() -> None:
    names = ["orchestrator", "pool-fast", "pool-large"]
    made = snapshot()
    assert [r.name for r in made.resources[CLUSTER]] == names
    assert [r.name for r in made.resources[ENDPOINTS]] == names
    assert set(made.resources) == set(PUSH_ORDER)


def test_an_endpoint_carries_slot_state_weight_and_status_port() -> None:
    replicas = document()["replicas"]
    replicas[1] |= {"state": "draining", "weight": 10}
    members = endpoints(resource(ENDPOINTS, "pool-fast", replicas=replicas))
    assert members["slot-0"]["health_status"] == "HEALTHY"
    assert members["slot-0"]["load_balancing_weight"] == 100
    assert members["slot-1"]["health_status"] == "DRAINING"
    assert members["slot-1"]["load_balancing_weight"] == 10
    assert members["slot-1"]["endpoint"]["health_check_config"]["port_value"] == 8213


def test_a_pool_has_its_own_slots_only() -> None:
    assert set(endpoints(resource(ENDPOINTS, "pool-large"))) == {"slot-0"}


@pytest.mark.parametrize("placement", ["maglev", "ring_hash"])
def test_the_balance_factor_is_published_in_percent(placement: str) -> None:
    cluster = resource(CLUSTER, "pool-fast", hash_balance_factor=1.25, placement=placement)
    policy = cluster["load_balancing_policy"]["policies"][0]["typed_extension_config"]
    assert policy["name"].endswith(placement)
    bound = policy["typed_config"]["consistent_hashing_lb_config"]
    assert bound["hash_balance_factor"] == 125


@pytest.mark.parametrize("name", ["orchestrator", "pool-fast", "pool-large"])
def test_nothing_is_retried_and_nothing_dead_is_used(name: str) -> None:
    cluster = resource(CLUSTER, name)
    assert cluster["circuit_breakers"]["thresholds"][0]["max_retries"] == 0
    assert cluster["common_lb_config"]["healthy_panic_threshold"] == {}  # 0 %
    assert cluster["ignore_health_on_host_removal"] is True


@pytest.mark.parametrize("table", ["edge", "inference"])
def test_no_route_has_a_time_limit_of_its_own_or_a_retry(table: str) -> None:
    actions = [
        route["route"]
        for route in resource(ROUTES, table)["virtual_hosts"][0]["routes"]
        if "route" in route
    ]
    assert actions
    for action in actions:
        assert action["timeout"] == "0s"
        assert "retry_policy" not in action


def test_an_inference_route_needs_pool_and_session() -> None:
    routes = resource(ROUTES, "inference")["virtual_hosts"][0]["routes"]
    for route in routes:
        if "route" in route:
            wanted = {header["name"] for header in route["match"]["headers"]}
            assert wanted == {"x-warmline-pool", "x-warmline-session"}
    assert "direct_response" in routes[-1], "the last route refuses what no other took"


@pytest.mark.parametrize("name", ["edge", "inference"])
def test_a_listener_logs_and_traces_nothing(name: str) -> None:
    manager = resource(LISTENER, name)["filter_chains"][0]["filters"][0]["typed_config"]
    assert "access_log" not in manager
    assert "tracing" not in manager
    assert [f["name"] for f in manager["http_filters"]] == ["envoy.filters.http.router"]


def test_an_ipv6_fleet_can_be_built() -> None:
    changed = document()
    changed["edge"]["address"] = "::1"
    assert encode(changed)
    listener = resource(LISTENER, "edge", edge=changed["edge"])
    assert listener["address"]["socket_address"]["address"] == "::1"
