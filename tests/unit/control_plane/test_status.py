import re
from pathlib import Path

import httpx
import pytest

from control_plane.resources import CLUSTER, PUSH_ORDER
from control_plane.server import DiscoveryService, Node, Publisher
from control_plane.status import make_app
from control_plane.topology_source import TopologyFile
from control_plane.xds_stream import AdsStream, Request
from tests.unit.control_plane.samples import document, encode, snapshot

DOCUMENT = Path(__file__).parents[3] / "docs/envoy.md"


@pytest.fixture
def source(tmp_path: Path) -> TopologyFile:
    path = tmp_path / "topology.yaml"
    path.write_bytes(encode(document()))
    return TopologyFile(path)


def service_with(*accepted: bool) -> DiscoveryService:
    """One node per argument; whether it accepted the clusters or rejected them."""
    service = DiscoveryService(Publisher(snapshot()))
    for index, is_accepted in enumerate(accepted):
        stream = AdsStream(snapshot())
        for type_url in PUSH_ORDER:
            [response] = stream.receive(Request(type_url))
            is_bad = type_url == CLUSTER and not is_accepted
            stream.receive(Request(type_url, response.nonce, error="bad" if is_bad else None))
        service.nodes[index] = Node(stream, f"envoy-{index}")
    return service


async def get(source: TopologyFile, service: DiscoveryService, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(make_app(source, service))
    async with httpx.AsyncClient(transport=transport, base_url="http://status") as client:
        return await client.get(path)


async def test_the_page_shows_what_each_envoy_accepted_and_rejected(source: TopologyFile) -> None:
    page = (await get(source, service_with(True, False), "/status")).json()
    version = snapshot().version
    assert page["published_version"] == version
    good, bad = (node["types"]["CDS"] for node in page["nodes"])
    assert (good["accepted_version"], good["rejection"]) == (version, "")
    assert (bad["accepted_version"], bad["rejection"]) == ("", "bad")
    assert bad["rejected_version"] == version


async def test_only_a_node_that_accepted_every_type_counts_as_up_to_date(
    source: TopologyFile,
) -> None:
    text = (await get(source, service_with(True, True, False), "/metrics")).text
    assert "warmline_control_plane_nodes 3.0" in text
    assert "warmline_control_plane_nodes_accepted 2.0" in text


async def test_a_refused_topology_is_counted_and_shown(
    source: TopologyFile, tmp_path: Path
) -> None:
    (tmp_path / "topology.yaml").write_text("topology_version: 9")
    source.poll()
    service = service_with()
    assert "got 9" in (await get(source, service, "/status")).json()["topology_error"]
    text = (await get(source, service, "/metrics")).text
    assert "warmline_control_plane_topology_errors_total 1.0" in text


async def test_it_is_alive_even_while_the_topology_is_bad(
    source: TopologyFile, tmp_path: Path
) -> None:
    (tmp_path / "topology.yaml").write_text("")
    source.poll()
    assert (await get(source, service_with(), "/healthz")).status_code == 200


async def test_every_metric_is_in_the_document(source: TopologyFile) -> None:
    text = (await get(source, service_with(True), "/metrics")).text
    emitted = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert emitted == set(re.findall(r"`(warmline_control_plane_\w+)`", DOCUMENT.read_text()))
