"""Renders the documents that the parts of a stack read. Pure; the values are plain YAML data."""

from pathlib import Path
from typing import Any

import yaml

from scripts.stack.layout import (
    ADDRESS,
    Ports,
    RunFolder,
    StackConfig,
    ports_of,
    slot_name,
    worker_name,
)

DEVELOPMENT_TENANT = "development"


def topology(config: StackConfig) -> dict[str, Any]:
    """Return the control plane's document: every replica stands behind every pool."""
    ports = ports_of(config)
    slots = [slot_name(index) for index in range(config.replicas)]
    return {
        "topology_version": 1,
        "edge": _listen(ports.edge),
        "inference": _listen(ports.inference),
        "control_plane": _listen(ports.control_plane),
        "control_plane_status": _listen(ports.control_plane_status),
        "workers": [
            {"name": worker_name(index), **_listen(port)}
            for index, port in enumerate(ports.workers)
        ],
        "replicas": [_replica(ports, index) for index in range(config.replicas)],
        "pools": [{"name": pool, "slots": slots} for pool in config.pools],
        "placement": config.placement,
    }


def _replica(ports: Ports, index: int) -> dict[str, Any]:
    return {
        "slot": slot_name(index),
        **_listen(ports.replicas[index]),
        "status_port": ports.replica_status[index],
        "state": "serving",
    }


def worker_settings(config: StackConfig, index: int) -> dict[str, Any]:
    """Return the settings of one orchestrator worker."""
    ports = ports_of(config)
    return {
        "settings_version": 1,
        "worker": worker_name(index),
        "listen": _listen(ports.workers[index]),
        "metrics": _listen(ports.worker_metrics[index]),
        "inference": _listen(ports.inference),
        "pools": [{"name": pool, "engine_dir": config.engine_dir} for pool in config.pools],
        "session_secret_file": str(RunFolder(Path(config.run_dir)).session_secret),
        "development_tenant": DEVELOPMENT_TENANT,
        "recipe": config.recipe,
        "control_plane_status_url": f"http://{ADDRESS}:{ports.control_plane_status}",
        "limits": dict(config.worker_limits),
        "replicas": [
            {"slot": slot_name(number), "status_url": f"http://{ADDRESS}:{port}"}
            for number, port in enumerate(ports.replica_status)
        ],
    }


def measurement_settings(config: StackConfig) -> dict[str, Any]:
    """Return the settings of the measurement process."""
    return {
        "settings_version": 1,
        "listen": _listen(ports_of(config).measurement),
        "telemetry_dir": str(RunFolder(Path(config.run_dir)).telemetry),
    }


def _listen(port: int) -> dict[str, Any]:
    return {"address": ADDRESS, "port": port}


def to_yaml(document: dict[str, Any]) -> str:
    """Write a document with its keys in their own order."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text
