"""One stack as a value: its settings, the ports that follow from them and where its files lie.

Everything that one stack writes is under its run folder, and every port but the edge's lies in one
block, so that a test or a bench can start a stack of its own beside a running one.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scripts.stack.errors import StackError

ADDRESS = "127.0.0.1"
REPLICAS_MAX = 10
WORKERS_MAX = 10
PORT_MIN, PORT_MAX = 1024, 65535
PORT_BLOCK = 70
"""Ports that a stack may take from `port_base` on."""

SOCKET_PATH_BYTES_MAX = 100
"""Linux takes 107 bytes; the supervisor appends a process id while it makes the socket."""


REPLICA_GROUP = "replicas"
"""The supervisor's group of the replicas' processes."""


def worker_name(index: int) -> str:
    """Name of an orchestrator worker and of its process."""
    return f"worker-{index}"


def replica_name(index: int) -> str:
    """Name of a replica's process."""
    return f"replica-{index}"


def slot_name(index: int) -> str:
    """Place of a replica on the ring; it outlives the process."""
    return f"slot-{index}"


@dataclass(frozen=True)
class StackConfig:
    """What a person chooses. Paths are absolute."""

    run_dir: str
    engine_dir: str
    edge_port: int = 8080
    port_base: int = 8081
    replicas: int = 2
    workers: int = 2
    pools: tuple[str, ...] = ("fast", "large")
    engine: Literal["openvino", "fake"] = "openvino"
    cache_mib: int = 512
    trace: bool = False
    envoy_threads: int = 1
    replica_variables: tuple[tuple[str, str], ...] = ()  # more WARMLINE_* for the replicas
    worker_limits: tuple[tuple[str, int], ...] = ()  # keys of the workers' `limits`
    recipe: str = "default@1"  # how the workers make prompts: a shipped recipe, or a file's path
    placement: Literal["maglev", "ring_hash", "round_robin"] = "maglev"  # of sessions on slots

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "StackConfig":
        """Read what `to_document` wrote. Raises TypeError for other keys."""
        variables = tuple((name, value) for name, value in document["replica_variables"])
        pools = tuple(document["pools"])
        limits = tuple((name, value) for name, value in document["worker_limits"])
        pairs = {"replica_variables": variables, "worker_limits": limits}
        return cls(**{**document, "pools": pools, **pairs})

    def to_document(self) -> dict[str, Any]:
        """Return a value that JSON can hold."""
        return dataclasses.asdict(self)


def _check(config: StackConfig) -> None:
    last = config.port_base + PORT_BLOCK - 1
    limits = (
        ("--replicas", config.replicas, 1, REPLICAS_MAX),
        ("--workers", config.workers, 1, WORKERS_MAX),
        ("--port", config.edge_port, PORT_MIN, PORT_MAX),
        ("--port-base", config.port_base, PORT_MIN, PORT_MAX - PORT_BLOCK + 1),
        ("--cache-mib", config.cache_mib, 16, 1024 * 1024),
    )
    for option, value, least, most in limits:
        if not least <= value <= most:
            raise StackError(
                f"{option} is {value}; it can be {least} to {most}.", "Choose another."
            )
    if config.port_base <= config.edge_port <= last:
        raise StackError(
            f"--port {config.edge_port} lies in the block {config.port_base} to {last} of the "
            "other ports.",
            f"Choose a --port outside it, or a --port-base above {config.edge_port}.",
        )
    if not config.pools:
        raise StackError("--pools is empty; a stack needs 1 pool or more.", "Name one: fast.")


@dataclass(frozen=True)
class Ports:
    """Every port of a stack."""

    edge: int
    envoy_admin: int
    inference: int
    control_plane: int
    control_plane_status: int
    measurement: int
    workers: tuple[int, ...]
    worker_metrics: tuple[int, ...]
    replicas: tuple[int, ...]
    replica_status: tuple[int, ...]
    replica_metrics: tuple[int, ...]

    def named(self) -> dict[int, str]:
        """Return what listens on each port, in words."""
        return {
            self.edge: "edge",
            self.envoy_admin: "Envoy's admin",
            self.inference: "inference",
            self.control_plane: "control plane",
            self.control_plane_status: "control plane's status",
            self.measurement: "measurement",
            **_each(self.workers, "worker-{}"),
            **_each(self.worker_metrics, "worker-{}'s metrics"),
            **_each(self.replicas, "replica-{}"),
            **_each(self.replica_status, "replica-{}'s status"),
            **_each(self.replica_metrics, "replica-{}'s Triton metrics"),
        }


def _each(ports: tuple[int, ...], name: str) -> dict[int, str]:
    return {port: name.format(index) for index, port in enumerate(ports)}


def ports_of(config: StackConfig) -> Ports:
    """Return the ports: the edge's own, all others counted from `port_base`."""
    base = config.port_base

    def run(offset: int, count: int) -> tuple[int, ...]:
        return tuple(range(base + offset, base + offset + count))

    return Ports(
        edge=config.edge_port,
        envoy_admin=base + 3,
        inference=base + 4,
        control_plane=base + 5,
        control_plane_status=base + 6,
        measurement=base + 7,
        workers=run(20, config.workers),
        worker_metrics=run(30, config.workers),
        replicas=run(40, config.replicas),
        replica_status=run(50, config.replicas),
        replica_metrics=run(60, config.replicas),
    )


@dataclass(frozen=True)
class RunFolder:
    """Where one stack's files lie."""

    path: Path

    @property
    def state(self) -> Path:
        """Rendered configuration, process ids and sockets; gone after `scripts/down`."""
        return self.path / "run"

    @property
    def logs(self) -> Path:
        """One size-bounded log file a process."""
        return self.path / "log"

    @property
    def traces(self) -> Path:
        """With --trace: counts and times of each sequence, one file a replica."""
        return self.path / "trace"

    @property
    def telemetry(self) -> Path:
        """What the measurement process owns."""
        return self.path / "telemetry"

    @property
    def session_secret(self) -> Path:
        """Key of the session hash; stays, so that sessions keep their replica over restarts."""
        return self.path / "secrets" / "session.key"

    @property
    def lock(self) -> Path:
        """Held while the stack is started or stopped."""
        return self.path / ".lock"

    @property
    def config(self) -> Path:
        """The `StackConfig` that was started, as JSON."""
        return self.state / "stack.json"

    @property
    def ready(self) -> Path:
        """Written when a start has succeeded; without it a running stack is half-started."""
        return self.state / "ready"

    @property
    def topology(self) -> Path:
        """The control plane's document."""
        return self.state / "topology.yaml"

    @property
    def bootstrap(self) -> Path:
        """Envoy's bootstrap."""
        return self.state / "bootstrap.yaml"

    @property
    def measurement_settings(self) -> Path:
        """The measurement process's settings."""
        return self.state / "measurement.yaml"

    @property
    def supervisor_config(self) -> Path:
        """The supervisor's configuration."""
        return self.state / "supervisord.conf"

    def worker_settings(self, name: str) -> Path:
        """Settings of one orchestrator worker."""
        return self.state / f"{name}.yaml"

    @property
    def backend(self) -> Path:
        """Folder that Triton loads its Python backend from."""
        return self.state / "backends"

    def log_of(self, process: str) -> Path:
        """Log file of one process."""
        return self.logs / f"{process}.log"

    def trace_of(self, replica: str) -> Path:
        """Trace file of one replica."""
        return self.traces / f"{replica}.jsonl"

    def shared_memory_prefix(self) -> str:
        """Start of the names of this stack's regions in /dev/shm."""
        return f"warmline-{_short_hash(self.path)}-"

    def supervisor_socket(self, runtime_dir: Path) -> Path:
        """Unix socket of the supervisor; under `runtime_dir` where the own path is too long."""
        own = self.state / "supervisor.sock"
        if len(bytes(own)) <= SOCKET_PATH_BYTES_MAX:
            return own
        return runtime_dir / f"warmline-{_short_hash(self.path)}.sock"


def _short_hash(path: Path) -> str:
    return hashlib.sha256(bytes(path)).hexdigest()[:12]
