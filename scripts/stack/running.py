"""What runs from a run folder: asking, waiting and stopping. Standard library only.

So a stack can be looked at and stopped even where its environments are gone.
"""

import http.client
import json
import os
import shutil
import threading
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from scripts.stack import probe, processes
from scripts.stack.errors import StackError
from scripts.stack.layout import RunFolder, StackConfig, ports_of
from scripts.stack.locking import exclusive
from scripts.stack.logs import tail
from scripts.stack.progress import Progress
from scripts.stack.readiness import (
    Health,
    ProcessView,
    StartWatch,
    health_checks,
    views,
    with_rotation,
)
from scripts.stack.supervisor import Supervisor, runtime_dir

READY_LIMIT_S = 120.0
LOOK_EVERY_S = 0.3
DRAIN_LIMIT_S = 5.0
STOP_LIMIT_S = 45.0
LOG_LINES_SHOWN = 15


@contextmanager
def holding(folder: RunFolder, progress: Progress) -> Iterator[None]:
    """Be the only one that starts or stops this stack."""

    def waiting(holder: str) -> None:
        progress.note(f"waiting for process {holder}, which starts or stops this stack")

    with exclusive(folder.lock, waiting):
        yield


def supervisor_of(folder: RunFolder) -> Supervisor:
    """Return the supervisor of a stack, running or not."""
    return Supervisor(folder.supervisor_socket(runtime_dir(os.environ)))


def running_config(folder: RunFolder) -> StackConfig | None:
    """Return the settings of the stack that runs from this folder; None when none does."""
    if not supervisor_of(folder).is_running():
        return None
    try:
        return StackConfig.from_document(json.loads(folder.config.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def look(config: StackConfig, supervisor: Supervisor) -> tuple[ProcessView, ...]:
    """Return the present state of every process."""
    checks = health_checks(config)
    answers: Mapping[str, Health] = probe.ask_all(checks)
    with suppress(OSError, http.client.HTTPException):  # Envoy's own check says that it is not up
        _, clusters = probe.get(ports_of(config).envoy_admin, "/clusters")
        answers = with_rotation(checks, answers, clusters.decode())
    return views(checks, supervisor.processes(), answers)


def wait_ready(config: StackConfig, progress: Progress, limit_s: float = READY_LIMIT_S) -> None:
    """Wait until every process is ready; a replica that was stopped on purpose is not waited for.

    Raises `StackError` when one cannot come up, or when the limit has passed.
    """
    supervisor = supervisor_of(RunFolder(Path(config.run_dir)))
    watch = StartWatch()
    pause = threading.Event()
    until = time.monotonic() + limit_s
    while True:
        infos = supervisor.processes()
        watch = watch.saw(infos)
        seen = look(config, supervisor)
        progress.show(seen)
        if all(view.ready or view.is_parked for view in seen):
            return
        failed = watch.failed(infos)
        if failed:
            raise _failure(config, failed, "does not stay up")
        if not infos:
            raise _failure(config, "supervisor", "has ended")
        if time.monotonic() >= until:
            late = next(v for v in reversed(seen) if not v.ready)  # what others wait for
            what = f"is not ready after {limit_s:.0f} s ({late.detail})"
            raise _failure(config, late.name, what)
        pause.wait(LOOK_EVERY_S)


def supervise(
    folder: RunFolder,
    name: str,
    method: Literal["start", "stop"],
    until: Container[str],
    limit_s: float = STOP_LIMIT_S,
) -> None:
    """Start or stop one process for good, and wait until its state is one of `until`.

    Raises `StackError` at the limit, and where the stack has no such process.
    """
    supervisor = supervisor_of(folder)
    found = [info for info in supervisor.processes() if info.name == name]
    if not found:
        raise StackError(f"There is no process {name} in {folder.path}.", "See scripts/status.")
    getattr(supervisor, method)(found[0].full_name)

    def reached() -> bool:
        return any(info.state in until for info in supervisor.processes() if info.name == name)

    if not processes.wait_until(reached, limit_s):
        raise StackError(f"{name} did not {method} within {limit_s:.0f} s.", "See its log.")


def log_excerpt(folder: RunFolder, name: str) -> str:
    """Return the end of a process's log, indented."""
    lines = tail(folder.log_of(name), LOG_LINES_SHOWN)
    return "\n".join(f"    {line}" for line in lines) if lines else "    (its log is empty)"


def _failure(config: StackConfig, name: str, what: str) -> StackError:
    folder = RunFolder(Path(config.run_dir))
    return StackError(
        f"{name} {what}. The end of its log:\n{log_excerpt(folder, name)}",
        f"The whole log: {folder.log_of(name)}. Everything that was started is stopped again.",
    )


def stop(folder: RunFolder, progress: Progress) -> bool:
    """Stop everything and clean up; return whether anything ran.

    The edge goes first and lets requests in flight end, so nothing is refused midway.
    """
    supervisor = supervisor_of(folder)
    config = running_config(folder)
    ran = supervisor.is_running() or bool(processes.stack_processes(folder))
    if config is not None:
        _drain_edge(config)
    supervisor.shutdown()
    if not processes.wait_until(lambda: not supervisor.is_running(), STOP_LIMIT_S):
        progress.note(f"the supervisor did not stop within {STOP_LIMIT_S:.0f} s; ending it")
    processes.end(folder, grace_s=2.0)
    for region in processes.shared_memory_of(folder):
        region.unlink(missing_ok=True)
    folder.supervisor_socket(runtime_dir(os.environ)).unlink(missing_ok=True)
    shutil.rmtree(folder.state, ignore_errors=True)
    return ran


def _drain_edge(config: StackConfig) -> None:
    """Take no new connection at the edge, and wait for the requests in flight."""
    admin = ports_of(config).envoy_admin

    def idle() -> bool:
        status, body = probe.get(admin, "/stats?filter=^http.edge.downstream_rq_active$")
        return status != http.client.OK or not body or body.decode().rstrip().endswith(": 0")

    with suppress(OSError, http.client.HTTPException):  # Envoy is not up: nothing to wait for
        probe.post(admin, "/drain_listeners?inboundonly")
        processes.wait_until(idle, DRAIN_LIMIT_S)
