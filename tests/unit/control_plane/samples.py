"""Topology documents for the tests of the control plane."""

from typing import Any

import msgspec

from control_plane.snapshot import Snapshot, build_snapshot
from control_plane.topology import Topology, parse_topology

HOST = "127.0.0.1"


def document(replicas: int = 2, workers: int = 1) -> dict[str, Any]:
    """A good document, free to be changed."""
    slots = [f"slot-{i}" for i in range(replicas)]
    return {
        "topology_version": 1,
        "edge": {"address": HOST, "port": 8080},
        "inference": {"address": HOST, "port": 8085},
        "control_plane": {"address": HOST, "port": 8086},
        "workers": [
            {"name": f"worker-{i}", "address": HOST, "port": 8101 + i} for i in range(workers)
        ],
        "replicas": [
            {"slot": slot, "address": HOST, "port": 8201 + 10 * i, "status_port": 8203 + 10 * i}
            for i, slot in enumerate(slots)
        ],
        "pools": [{"name": "fast", "slots": slots}, {"name": "large", "slots": slots[:1]}],
    }


def encode(changed: dict[str, Any]) -> bytes:
    return msgspec.yaml.encode(changed)


def topology(**changes: Any) -> Topology:
    return parse_topology(encode(document() | changes))


def snapshot(**changes: Any) -> Snapshot:
    return build_snapshot(topology(**changes))
