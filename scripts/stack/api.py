"""Stacks of their own for tests and benches, beside whatever runs already.

    with running_stack(replicas=2, engine="fake") as stack:
        httpx.post(f"{stack.edge_url}/v1/inline-completions", json=...)
        stack.kill("replica-0")

The environments must be installed (`scripts/test` and `scripts/bench` see to it). Whatever happens
in the block, everything is stopped at its end and the run folder is removed.
"""

import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.stack.engine import EngineSource, build
from scripts.stack.errors import StackError
from scripts.stack.layout import (
    ADDRESS,
    PORT_BLOCK,
    RunFolder,
    StackConfig,
    ports_of,
    replica_name,
    slot_name,
    worker_name,
)
from scripts.stack.machine import can_listen
from scripts.stack.paths import programs
from scripts.stack.progress import SilentProgress
from scripts.stack.readiness import ProcessView
from scripts.stack.running import holding, look, stop, supervise, supervisor_of, wait_ready
from scripts.stack.start import start
from scripts.stack.supervisor import LIVE_STATES, STOPPED_STATES

PORTS = range(20_000, 32_000)
"""Where blocks for tests are looked for: below the ports that Linux gives to clients (32,768)."""


@dataclass(frozen=True)
class ReplicaPlace:
    """One replica: its process, its place on the ring, and where it listens."""

    name: str
    slot: str
    address: str  # host:port of Triton's gRPC
    status_url: str  # /healthz, /load, /metrics


@dataclass(frozen=True)
class RunningStack:
    """A stack that was ready when the block began."""

    config: StackConfig

    @property
    def run_dir(self) -> Path:
        """Folder of everything that the stack writes."""
        return Path(self.config.run_dir)

    @property
    def folder(self) -> RunFolder:
        """The same, with names: logs, traces, topology."""
        return RunFolder(self.run_dir)

    @property
    def edge_url(self) -> str:
        """Base address for editors' requests."""
        return _url(ports_of(self.config).edge)

    @property
    def inference_address(self) -> str:
        """host:port of Envoy's gRPC listener in front of the replicas."""
        return f"{ADDRESS}:{ports_of(self.config).inference}"

    @property
    def envoy_admin_url(self) -> str:
        """Envoy's admin interface."""
        return _url(ports_of(self.config).envoy_admin)

    @property
    def control_plane_status_url(self) -> str:
        """The control plane's status page."""
        return _url(ports_of(self.config).control_plane_status)

    @property
    def measurement_url(self) -> str:
        """The measurement process."""
        return _url(ports_of(self.config).measurement)

    @property
    def worker_urls(self) -> tuple[str, ...]:
        """Orchestrator workers, without Envoy between."""
        return tuple(_url(port) for port in ports_of(self.config).workers)

    @property
    def worker_metrics_urls(self) -> tuple[str, ...]:
        """Where each worker serves /metrics."""
        return tuple(_url(port) for port in ports_of(self.config).worker_metrics)

    @property
    def replicas(self) -> tuple[ReplicaPlace, ...]:
        """The Triton replicas."""
        ports = ports_of(self.config)
        return tuple(
            ReplicaPlace(
                name=replica_name(index),
                slot=slot_name(index),
                address=f"{ADDRESS}:{ports.replicas[index]}",
                status_url=_url(ports.replica_status[index]),
            )
            for index in range(self.config.replicas)
        )

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers' processes."""
        return tuple(worker_name(index) for index in range(self.config.workers))

    def views(self) -> tuple[ProcessView, ...]:
        """Return the present state of every process."""
        return look(self.config, supervisor_of(self.folder))

    def pids(self) -> dict[str, int]:
        """Return the process id of each running process, by name."""
        infos = supervisor_of(self.folder).processes()
        return {info.name: info.pid for info in infos if info.pid}

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to one process (the supervisor starts it again); return its id."""
        pids = self.pids()
        if name not in pids:
            raise StackError(f"{name} does not run.", f"Choose from: {', '.join(sorted(pids))}.")
        os.kill(pids[name], number)
        return pids[name]

    def stop_process(self, name: str, limit_s: float = 30.0) -> None:
        """Stop one process for good, until `start_process`."""
        supervise(self.folder, name, "stop", STOPPED_STATES, limit_s)

    def start_process(self, name: str, limit_s: float = 30.0) -> None:
        """Start a stopped process; it may not be ready yet on return."""
        supervise(self.folder, name, "start", LIVE_STATES, limit_s)

    def wait_ready(self, limit_s: float = 60.0) -> None:
        """Wait until everything is ready again; raises `StackError` at the limit."""
        wait_ready(self.config, SilentProgress(), limit_s)


def _url(port: int) -> str:
    return f"http://{ADDRESS}:{port}"


@contextmanager
def running_stack(
    *,
    replicas: int = 2,
    workers: int = 1,
    pools: Sequence[str] = ("fast", "large"),
    engine: Literal["openvino", "fake"] = "openvino",
    model: Path | None = None,
    tokenizer: Path | None = None,
    engine_dir: Path | None = None,
    cache_mib: int = 128,
    trace: bool = False,
    replica_variables: Mapping[str, str] | None = None,
    worker_limits: Mapping[str, int] | None = None,
    recipe: str = "default@1",
    placement: Literal["maglev", "ring_hash", "round_robin"] = "maglev",
    ports: range = PORTS,
) -> Iterator[RunningStack]:
    """Start a stack in a temporary folder and on free ports; stop it when the block ends.

    `engine_dir` serves an engine folder as it is; otherwise `model` (default: the reference
    checkpoint) is built, or found built. `replica_variables` are further settings of the replicas
    (WARMLINE_FAKE_STEP_US, for example), `worker_limits` are keys of the workers' `limits`;
    `recipe` and `placement` are those of `StackConfig`. Raises `StackError` as `scripts/up` does.
    """
    installed = programs(os.environ)
    served = engine_dir or build(EngineSource(model, tokenizer), installed.plane_python, _silent)
    run_dir = Path(tempfile.mkdtemp(prefix="warmline-")).resolve()
    edge_port, port_base = free_ports(ports)
    config = StackConfig(
        run_dir=str(run_dir),
        engine_dir=str(served.resolve()),
        edge_port=edge_port,
        port_base=port_base,
        replicas=replicas,
        workers=workers,
        pools=tuple(pools),
        engine=engine,
        cache_mib=cache_mib,
        trace=trace,
        replica_variables=tuple((replica_variables or {}).items()),
        worker_limits=tuple((worker_limits or {}).items()),
        recipe=recipe,
        placement=placement,
    )
    folder, progress = RunFolder(run_dir), SilentProgress()
    try:
        with holding(folder, progress):
            start(config, installed, progress)
        yield RunningStack(config)
    finally:
        with holding(folder, progress):
            stop(folder, progress)
        shutil.rmtree(run_dir, ignore_errors=True)


def _silent(_text: str) -> None:
    pass


def free_ports(ports: range = PORTS) -> tuple[int, int]:
    """Return the edge's port and the start of a block, all free now: (edge, port_base).

    Starts looking at a place of this process's own, so that parallel tests seldom meet.
    """
    size = PORT_BLOCK + 1
    starts = list(range(ports.start, ports.stop - size + 1, size))
    random.Random(os.getpid()).shuffle(starts)
    for first in starts:
        if all(can_listen(port) for port in range(first, first + size)):
            return first, first + 1
    raise StackError(
        f"No {size} free ports in a row between {ports.start} and {ports.stop - 1}.",
        "Stop other stacks, or name a wider range.",
    )
