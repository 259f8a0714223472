"""The control plane may die, hear nonsense or be refused: what Envoy serves by stays."""

import grpc
import pytest

from control_plane import server
from control_plane.resources import LISTENER, Resource
from control_plane.server import DiscoveryService, Publisher
from control_plane.snapshot import build_snapshot, make_snapshot
from control_plane.topology import Address, parse_topology
from tests.component.envoy.harness import HOST, EnvoyStack, until

pytestmark = pytest.mark.component

SESSIONS = [f"session-{i}" for i in range(20)]


async def test_serving_goes_on_without_the_control_plane_and_changes_arrive_after(
    stack: EnvoyStack,
) -> None:
    placed = await stack.place(SESSIONS)
    stack.stop_control_plane(kill=True)
    assert await stack.place(SESSIONS) == placed
    assert (await stack.http.get("/")).status_code == 200

    stack.document["replicas"][0]["state"] = "draining"
    stack.write()
    stack.start_control_plane()
    await stack.wait_until_accepted()
    assert await stack.place(SESSIONS) == dict.fromkeys(SESSIONS, "slot-1")


async def test_a_control_plane_that_comes_back_unchanged_moves_nothing(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    live = stack.open_stream("session-live", model="hold")
    await live.read()
    stack.stop_control_plane()
    stack.start_control_plane()
    await stack.wait_until_accepted()
    assert await stack.place(SESSIONS) == placed
    for replica in stack.replicas.values():
        replica.release.set()
    assert await live.read() is not grpc.aio.EOF


async def test_sigterm_ends_it_cleanly_with_an_envoy_connected(stack: EnvoyStack) -> None:
    assert stack.stop_control_plane() == 0


async def test_a_bad_document_changes_nothing_and_is_reported(stack: EnvoyStack) -> None:
    version = (await stack.status())["published_version"]
    stack.topology_file.write_text("topology_version: 1\nsurprise: true\n")

    async def is_reported() -> bool:
        return bool((await stack.status())["topology_error"])

    await until(is_reported, "the fault is on the status page")
    status = await stack.status()
    assert "surprise" in status["topology_error"]
    assert status["published_version"] == version
    assert await stack.infer("session-a") == await stack.infer("session-a")

    stack.document["hash_balance_factor"] = 3.0
    await stack.publish()
    assert (await stack.status())["topology_error"] == ""


async def test_it_refuses_to_start_from_a_bad_document(stack: EnvoyStack) -> None:
    stack.stop_control_plane()
    stack.topology_file.write_text("topology_version: 2\n")
    stack.start_control_plane()
    process = stack.control_plane
    assert process is not None
    await until(lambda: process.poll() is not None, "it exits")
    assert process.returncode == 2
    assert "topology_version" in (stack.folder / "control_plane.log").read_text()


async def test_a_rejected_snapshot_leaves_the_last_good_one_in_force(stack: EnvoyStack) -> None:
    """What Envoy rejects cannot be made from a topology, so it is published from here."""
    placed = await stack.place(SESSIONS)
    good = build_snapshot(parse_topology(stack.topology_file.read_bytes()))
    unusable = make_snapshot({**good.resources, LISTENER: (Resource("edge", b"\x0a\x04edge"),)})
    stack.stop_control_plane()
    service = DiscoveryService(Publisher(good))
    ads = await server.start(service, Address(HOST, stack.port("control_plane")))
    try:
        await until(lambda: accepted(service) == {good.version}, "the good one is accepted")
        service.publisher.publish(unusable)
        await until(lambda: service.rejections_total["LDS"] == 1, "Envoy rejects the listener")
        assert await stack.place(SESSIONS) == placed
        assert (await stack.http.get("/")).status_code == 200
        assert good.version in accepted(service)

        service.publisher.publish(good)
        await until(lambda: accepted(service) == {good.version}, "and takes the good one again")
        assert service.rejections_total["LDS"] == 1, "what was rejected is not sent again"
    finally:
        await ads.stop(None)


def accepted(service: DiscoveryService) -> set[str]:
    return {
        state.accepted_version
        for node in service.nodes.values()
        for state in node.stream.subscriptions.values()
        if len(node.stream.subscriptions) == 4
    }
