"""Judges whether a stack is ready, and whether a start has failed. Pure.

The supervisor knows which processes live; only the processes themselves know whether they can
serve; only Envoy knows whether it sends them anything. A process is ready when it lives, its own
health answer says so and, for workers and replicas, Envoy takes it for healthy: right after a start
there is a moment between the last two, in which requests fail.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scripts.stack.layout import (
    ADDRESS,
    REPLICA_GROUP,
    StackConfig,
    ports_of,
    replica_name,
    worker_name,
)
from scripts.stack.supervisor import LIVE_STATES, ProcessInfo

_FLAGS = re.compile(r"^(\S+?)::(\S+?)::health_flags::(\S+)$", re.MULTILINE)

STARTS_MAX = 3
"""A start has failed when one process needs a third: the supervisor would go on trying."""


@dataclass(frozen=True)
class HealthCheck:
    """Where to ask one process for its health, and the address that it serves."""

    process: str
    port: int
    path: str
    address: str
    endpoint: str | None = None  # host:port under which Envoy sends to it

    @property
    def url(self) -> str:
        """The health address, whole."""
        return f"http://{ADDRESS}:{self.port}{self.path}"


@dataclass(frozen=True)
class Health:
    """One answer."""

    ready: bool
    detail: str  # why not


@dataclass(frozen=True)
class ProcessView:
    """What a person wants to know of one process."""

    name: str
    state: str
    ready: bool
    detail: str
    pid: int
    started_s: int
    address: str
    is_parked: bool = False  # a replica that was stopped on purpose, after a drain


def health_checks(config: StackConfig) -> tuple[HealthCheck, ...]:
    """Return the checks of all processes, in the order in which a request meets them.

    Envoy's check goes through the edge to a worker, so it covers the way as well.
    """
    ports = ports_of(config)
    edge = f"http://{ADDRESS}:{ports.edge}"
    control_plane = f"{ADDRESS}:{ports.control_plane}"
    measurement = f"{ADDRESS}:{ports.measurement}"
    return (
        HealthCheck("envoy", ports.edge, "/readyz", edge),
        *(
            HealthCheck(
                worker_name(index),
                port,
                "/readyz",
                f"http://{ADDRESS}:{port}",
                endpoint=f"{ADDRESS}:{port}",
            )
            for index, port in enumerate(ports.workers)
        ),
        *(
            HealthCheck(
                replica_name(index),
                status,
                "/healthz",
                f"{ADDRESS}:{port}",
                endpoint=f"{ADDRESS}:{port}",
            )
            for index, (port, status) in enumerate(
                zip(ports.replicas, ports.replica_status, strict=True)
            )
        ),
        HealthCheck("control-plane", ports.control_plane_status, "/healthz", control_plane),
        HealthCheck("measurement", ports.measurement, "/healthz", measurement),
    )


def with_rotation(
    checks: Sequence[HealthCheck], answers: Mapping[str, Health], clusters: str
) -> dict[str, Health]:
    """Take back the readiness of every endpoint that Envoy does not send to.

    `clusters` is what Envoy's admin prints for `/clusters`: a line
    `CLUSTER::HOST:PORT::health_flags::FLAGS` for each endpoint of each cluster. A draining endpoint
    is no fault: somebody wants it so.
    """
    flags: dict[str, str] = {}
    for _, endpoint, found in _FLAGS.findall(clusters):
        flags[endpoint] = flags.get(endpoint, "") + found
    return {
        **answers,
        **{
            check.process: Health(ready=False, detail=_fault(flags.get(check.endpoint)))
            for check in checks
            if check.endpoint is not None
            and answers[check.process].ready
            and "failed_" in flags.get(check.endpoint, "failed_")
        },
    }


def _fault(flags: str | None) -> str:
    if flags is None:
        return "Envoy does not know it yet"
    return f"Envoy does not send to it: {flags.strip('/')}"


def views(
    checks: Sequence[HealthCheck],
    infos: Sequence[ProcessInfo],
    answers: Mapping[str, Health],
) -> tuple[ProcessView, ...]:
    """Join what the supervisor knows with what the processes answered, in the checks' order."""
    by_name = {info.name: info for info in infos}
    return tuple(_view(check, by_name.get(check.process), answers) for check in checks)


def _view(
    check: HealthCheck, info: ProcessInfo | None, answers: Mapping[str, Health]
) -> ProcessView:
    if info is None:
        return ProcessView(check.process, "ABSENT", False, "not started", 0, 0, check.address)
    lives = info.state in LIVE_STATES
    # Before its first start a process is STOPPED too.
    is_parked = info.state == "STOPPED" and info.started_s > 0 and info.group == REPLICA_GROUP
    answer = answers.get(check.process, Health(ready=False, detail="not asked"))
    detail = answer.detail if lives else info.spawn_error or f"exit status {info.exit_status}"
    if is_parked:
        detail = f"stopped on purpose; scripts/undrain {info.name} brings it back"
    return ProcessView(
        name=info.name,
        state=info.state,
        ready=lives and answer.ready,
        detail="" if lives and answer.ready else detail,
        pid=info.pid,
        started_s=info.started_s,
        address=check.address,
        is_parked=is_parked,
    )


@dataclass(frozen=True)
class StartWatch:
    """What has been seen of a start so far."""

    starts: Mapping[str, frozenset[int]] = field(default_factory=dict)  # epoch seconds, by process

    def saw(self, infos: Sequence[ProcessInfo]) -> "StartWatch":
        """Return the watch after one more look."""
        seen = {
            info.name: self.starts.get(info.name, frozenset()) | {info.started_s}
            for info in infos
            if info.started_s
        }
        return StartWatch({**self.starts, **seen})

    def failed(self, infos: Sequence[ProcessInfo]) -> str | None:
        """Return the name of a process that will not come up, if there is one."""
        fatal = [info.name for info in infos if info.state == "FATAL"]
        dying = [name for name, times in self.starts.items() if len(times) >= STARTS_MAX]
        return next(iter(sorted(fatal + dying)), None)
