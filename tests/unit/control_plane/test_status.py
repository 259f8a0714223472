import re
from pathlib import Path

import httpx
import pytest

from control_plane.drains import RefusedError
from control_plane.fleet import Fleet
from control_plane.resources import CLUSTER, PUSH_ORDER
from control_plane.server import DiscoveryService, Node
from control_plane.state_file import StateFile
from control_plane.status import make_app
from control_plane.topology_source import TopologyFile
from control_plane.xds_stream import AdsStream, Request
from tests.unit.control_plane.samples import document, encode

DOCUMENT = Path(__file__).parents[3] / "docs/envoy.md"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    path = tmp_path / "topology.yaml"
    path.write_bytes(encode(document()))
    return Fleet(TopologyFile(path), StateFile(tmp_path / "state.json"), now_s=0.0)


def service_with(fleet: Fleet, *accepted: bool) -> DiscoveryService:
    """One node per argument; whether it accepted the clusters or rejected them."""
    service = DiscoveryService(fleet.publisher)
    for index, is_accepted in enumerate(accepted):
        stream = AdsStream(fleet.publisher.snapshot)
        for type_url in PUSH_ORDER:
            [response] = stream.receive(Request(type_url))
            is_bad = type_url == CLUSTER and not is_accepted
            stream.receive(Request(type_url, response.nonce, error="bad" if is_bad else None))
        service.nodes[index] = Node(stream, f"envoy-{index}")
    return service


async def get(fleet: Fleet, service: DiscoveryService, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(make_app(fleet, service))
    async with httpx.AsyncClient(transport=transport, base_url="http://status") as client:
        return await client.get(path)


async def test_the_page_shows_what_each_envoy_accepted_and_rejected(fleet: Fleet) -> None:
    page = (await get(fleet, service_with(fleet, True, False), "/status")).json()
    version = fleet.publisher.snapshot.version
    assert page["published_version"] == version
    good, bad = (node["types"]["CDS"] for node in page["nodes"])
    assert (good["accepted_version"], good["rejection"]) == (version, "")
    assert (bad["accepted_version"], bad["rejection"]) == ("", "bad")
    assert bad["rejected_version"] == version


async def test_the_page_shows_states_weights_and_factors(fleet: Fleet) -> None:
    fleet.drain("slot-0", force=True, deadline_s=None, now_s=0.0)
    page = (await get(fleet, service_with(fleet), "/status")).json()
    seen = {replica["slot"]: (replica["state"], replica["weight"]) for replica in page["slots"]}
    assert seen == {"slot-0": ("draining", 100), "slot-1": ("serving", 100)}
    assert [(p["pool"], p["serving"], p["hash_balance_factor"]) for p in page["pools"]] == [
        ("fast", ["slot-1"], 2.0),
        ("large", [], 2.0),
    ]


async def test_only_a_node_that_accepted_every_type_counts_as_up_to_date(fleet: Fleet) -> None:
    text = (await get(fleet, service_with(fleet, True, True, False), "/metrics")).text
    assert "warmline_control_plane_nodes 3.0" in text
    assert "warmline_control_plane_nodes_accepted 2.0" in text


async def test_metrics_count_slots_by_state_and_drains_by_result(fleet: Fleet) -> None:
    fleet.drain("slot-0", force=True, deadline_s=None, now_s=0.0)
    with pytest.raises(RefusedError):
        fleet.drain("slot-1", force=False, deadline_s=None, now_s=0.0)
    text = (await get(fleet, service_with(fleet), "/metrics")).text
    for line in (
        'slots{state="serving"} 1.0',
        'slots{state="draining"} 1.0',
        'slots{state="drained"} 0.0',
        "slots_ramping 0.0",
        'drains_total{result="forced"} 1.0',
        'drains_total{result="refused"} 1.0',
        'slot_weight{slot="slot-1"} 100.0',
        'hash_balance_factor{pool="fast"} 2.0',
    ):
        assert f"warmline_control_plane_{line}" in text


async def test_a_refused_topology_is_counted_and_shown(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text("topology_version: 9")
    fleet.tick(is_accepted=True, now_s=1.0)
    service = service_with(fleet)
    assert "got 9" in (await get(fleet, service, "/status")).json()["topology_error"]
    text = (await get(fleet, service, "/metrics")).text
    assert "warmline_control_plane_topology_errors_total 1.0" in text


async def test_it_is_alive_even_while_the_topology_is_bad(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text("")
    fleet.tick(is_accepted=True, now_s=1.0)
    assert (await get(fleet, service_with(fleet), "/healthz")).status_code == 200


async def test_every_metric_is_in_the_document(fleet: Fleet) -> None:
    text = (await get(fleet, service_with(fleet, True), "/metrics")).text
    emitted = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert emitted == set(re.findall(r"`(warmline_control_plane_\w+)`", DOCUMENT.read_text()))
