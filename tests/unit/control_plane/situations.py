"""Situations for the tests of drains, ramps and bounds: four slots, all ready, 25 warm each."""

from collections.abc import Mapping
from typing import Any

from control_plane.fleet_state import (
    FleetState,
    Observation,
    ReplicaLoad,
    Situation,
    SlotRecord,
    first_state,
)
from control_plane.topology import Topology
from tests.unit.control_plane.samples import topology

SLOTS = tuple(f"slot-{i}" for i in range(4))
NOW_S = 1_000_000.0


def fleet_of_four(**changes: Any) -> Topology:
    """One pool `fast` over four slots; `floor` and other keys as named."""
    floor = changes.pop("floor", 1)
    replicas = [
        {"slot": slot, "address": "127.0.0.1", "port": 9000 + i, "status_port": 9100 + i}
        for i, slot in enumerate(SLOTS)
    ]
    pools = [{"name": "fast", "slots": list(SLOTS), "floor": floor}]
    return topology(**({"replicas": replicas, "pools": pools} | changes))


def seen(
    live: int = 0, warm: int = 25, *, waiting: int = 0, ready: bool = True, at_s: float = NOW_S
) -> Observation:
    return Observation(at_s, ready, ReplicaLoad(live, waiting, warm))


def unknown(at_s: float = NOW_S) -> Observation:
    return Observation(at_s, is_ready=False, load=None)


def situation(
    records: Mapping[str, SlotRecord] | None = None,
    observations: Mapping[str, Observation] | None = None,
    *,
    now_s: float = NOW_S,
    **changes: Any,
) -> Situation:
    """Four serving slots, changed by slot and by topology key."""
    fleet = fleet_of_four(**changes)
    start = first_state(fleet)
    state = FleetState(1, {**start.slots, **(records or {})})
    observed = {slot: seen(at_s=now_s) for slot in SLOTS} | dict(observations or {})
    return Situation(fleet, state, observed, now_s)
