"""What the control plane publishes, read by a worker: its own page, so that neither side drifts."""

from __future__ import annotations

from pathlib import Path

import httpx

from control_plane.fleet import Fleet as ControlledFleet
from control_plane.server import DiscoveryService
from control_plane.state_file import StateFile
from control_plane.status import make_app
from control_plane.topology_source import TopologyFile
from orchestrator.clock import ManualClock
from orchestrator.load.poller import Poller
from tests.unit.control_plane.samples import document, encode


async def test_a_drain_and_the_weights_are_read_from_the_control_planes_own_page(
    tmp_path: Path,
) -> None:
    path = tmp_path / "topology.yaml"
    path.write_bytes(encode(document()))
    controlled = ControlledFleet(TopologyFile(path), StateFile(tmp_path / "state.json"), now_s=0.0)
    app = make_app(controlled, DiscoveryService(controlled.publisher))
    poller = Poller(
        {"slot-0": "http://replica-0", "slot-1": "http://replica-1"},
        httpx.AsyncClient(transport=httpx.ASGITransport(app)),
        ManualClock(7.0),
        control_plane_url="http://control",
        on_fleet=lambda fleet, now_ms: None,
    )
    await poller.ask_control_plane()
    assert [slot.is_drained for slot in poller.fleet.slots.values()] == [False, False]
    controlled.drain("slot-0", force=True, deadline_s=None, now_s=0.0)
    await poller.ask_control_plane()
    zero, one = poller.fleet.slots.values()
    assert (zero.is_drained, one.is_drained, zero.drained_ms) == (True, False, 7.0)
    assert one.published is not None
    assert one.published.weight == 100
