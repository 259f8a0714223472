from typing import Any

import pytest

from control_plane.topology import (
    BYTES_MAX,
    Address,
    DrainLimits,
    LoadBound,
    Ramp,
    TopologyError,
    parse_topology,
)
from tests.unit.control_plane.samples import document, encode


def refusal(changed: dict[str, Any]) -> str:
    with pytest.raises(TopologyError) as refused:
        parse_topology(encode(changed))
    return str(refused.value)


def test_a_good_document_becomes_a_topology_with_its_defaults() -> None:
    topology = parse_topology(encode(document()))
    assert [replica.slot for replica in topology.replicas] == ["slot-0", "slot-1"]
    assert {(replica.state, replica.weight) for replica in topology.replicas} == {("serving", 100)}
    assert (topology.hash_balance_factor, topology.placement) == (LoadBound(), "maglev")
    assert (topology.ramp, topology.drain) == (Ramp(10, 300, 9), DrainLimits(60, 0.25))
    assert {(pool.floor, pool.hash_balance_factor) for pool in topology.pools} == {(1, None)}


def test_a_topology_cannot_be_changed() -> None:
    topology = parse_topology(encode(document()))
    with pytest.raises(AttributeError):
        topology.edge.port = 1  # type: ignore[misc]  # that it is refused is the point


@pytest.mark.parametrize("place", ["top", "edge", "replicas"])
def test_an_unknown_key_is_refused_at_every_level(place: str) -> None:
    changed = document()
    target = {"top": changed, "edge": changed["edge"], "replicas": changed["replicas"][0]}[place]
    target["surprise"] = 1
    assert "unknown field `surprise`" in refusal(changed)


@pytest.mark.parametrize(
    ("key", "value", "limit"),
    [
        ("port", 0, ">= 1"),
        ("port", 70000, "<= 65535"),
        ("port", "8201", "Expected `int`"),
        ("weight", 0, ">= 1"),
        ("weight", 1001, "<= 1000"),
        ("state", "dead", "Invalid enum value"),
        ("slot", "Slot 0", "matching regex"),
    ],
)
def test_a_value_out_of_its_limits_is_named_with_place_limit_and_value(
    key: str, value: object, limit: str
) -> None:
    changed = document()
    changed["replicas"][1][key] = value
    message = refusal(changed)
    assert limit in message
    assert f"$.replicas[1].{key}" in message
    assert f"got {value!r}" in message
    assert "docs/envoy.md" in message


@pytest.mark.parametrize("factor", [0.99, 100.5])
def test_the_balance_factor_stays_within_what_envoy_takes(factor: float) -> None:
    assert "$.hash_balance_factor" in refusal(document() | {"hash_balance_factor": factor})


@pytest.mark.parametrize(
    ("bound", "pair"),
    [
        ({"quiet": 1.25, "busy": 2.0}, "busy must be below its quiet, got 2.0 and 1.25"),
        ({"quiet": 2.0, "busy": 2.0}, "busy must be below its quiet, got 2.0 and 2.0"),
        ({"quiet_below": 40}, "quiet_below must be below its busy_above, got 40.0 and 40.0"),
    ],
)
def test_a_factor_that_follows_load_needs_two_levels_in_order(
    bound: dict[str, float], pair: str
) -> None:
    assert pair in refusal(document() | {"hash_balance_factor": bound})


def test_a_host_name_is_refused_because_envoy_takes_addresses_here() -> None:
    changed = document()
    changed["replicas"][0]["address"] = "replica.internal"
    assert "replica slot-0 must be an IPv4 or IPv6 literal" in refusal(changed)


@pytest.mark.parametrize(
    ("owner", "port", "taken_by"),
    [("edge", 8201, "replica slot-0"), ("inference", 8213, "status of replica slot-1")],
)
def test_no_address_is_listed_twice(owner: str, port: int, taken_by: str) -> None:
    changed = document()
    changed[owner]["port"] = port
    message = refusal(changed)
    assert owner in message
    assert taken_by in message


def test_two_spellings_of_one_address_are_one_address() -> None:
    changed = document()
    changed["edge"] = {"address": "::1", "port": 9000}
    changed["inference"] = {"address": "0:0:0:0:0:0:0:1", "port": 9000}
    assert "belongs to edge and to inference" in refusal(changed)


@pytest.mark.parametrize(
    ("key", "name"), [("replicas", "slot"), ("workers", "name"), ("pools", "name")]
)
def test_no_name_occurs_twice(key: str, name: str) -> None:
    changed = document(workers=2)
    changed[key][1][name] = changed[key][0][name]
    assert "twice" in refusal(changed) or "may be listed once" in refusal(changed)


def test_a_pool_names_existing_slots_each_once() -> None:
    changed = document()
    changed["pools"][0]["slots"] = ["slot-0", "slot-9"]
    assert "got 'slot-9'" in refusal(changed)
    changed["pools"][0]["slots"] = ["slot-0", "slot-0"]
    assert "'slot-0' twice" in refusal(changed)


@pytest.mark.parametrize("key", ["workers", "replicas", "pools"])
def test_a_fleet_without_members_is_refused(key: str) -> None:
    assert f"$.{key}" in refusal(document() | {key: []})


@pytest.mark.parametrize("text", [b"a: [", b"\xff\xfe", b"[]", b"", b"topology_version: 2"])
def test_what_is_no_topology_at_all_is_refused_with_a_reason(text: bytes) -> None:
    with pytest.raises(TopologyError, match="topology"):
        parse_topology(text)


def test_a_document_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(TopologyError, match=f"at most {BYTES_MAX} bytes, got {BYTES_MAX + 1}"):
        parse_topology(b"#" * (BYTES_MAX + 1))


def test_an_address_reads_as_one_would_type_it() -> None:
    assert str(Address("127.0.0.1", 80)) == "127.0.0.1:80"
    assert str(Address("::1", 80)) == "[::1]:80"
