"""Starts a real Triton server on the model repository, for tests."""

import contextlib
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builders.engine_build import build
from builders.engine_plan import REFERENCE_MODEL, BuildRequest
from scripts.stack.triton_command import (
    ReplicaVariables,
    TritonPorts,
    prepare_backend,
    triton_command,
    triton_environment,
)

ROOT = Path(__file__).resolve().parents[3]
START_LIMIT_S = 120
STOP_LIMIT_S = 30
POLL_S = 0.1


@dataclass(frozen=True)
class RunningTriton:
    """A server that serves."""

    process: subprocess.Popen[bytes]
    grpc_port: int
    status_port: int
    log: Path


def triton_python() -> Path:
    """The Python of the Triton environment; the tests that ask cannot do without it."""
    default = ROOT / "var/env/triton/bin/python"
    python = Path(os.environ.get("WARMLINE_TRITON_PYTHON", default))
    if not python.is_file():
        pytest.fail(f"no Python at {python}: run scripts/test, or set WARMLINE_TRITON_PYTHON")
    return python


def reference_engine(folder: Path) -> Path:
    """The reference model's engine, built into `folder`."""
    build(BuildRequest(checkpoint=REFERENCE_MODEL, output=folder))
    return folder


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def running_triton(folder: Path, engine_dir: Path, **variables: str) -> Iterator[RunningTriton]:
    """A server whose files are in `folder`, ended on exit; `variables` are the replica's."""
    python = triton_python()
    prepare_backend(python, folder / "backends")
    grpc_port, metrics_port, status_port = free_ports(3)
    command = triton_command(
        python,
        folder / "backends",
        ROOT / "model_repository",
        TritonPorts(grpc=grpc_port, metrics=metrics_port),
        restriction_key="a-key-that-the-tests-do-not-send",
    )
    command.append(f"--backend-config=python,shm-region-prefix-name=warmline-test-{grpc_port}-")
    replica = ReplicaVariables(engine_dir, status_port, others=variables)
    environment = triton_environment(python, replica, os.environ)
    log = folder / "triton.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    server = RunningTriton(process, grpc_port, status_port, log)
    try:
        wait_until_healthy(server)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_healthy(server: RunningTriton) -> None:
    """Until the status listener says so; fails with the end of the log otherwise."""
    for _ in range(int(START_LIMIT_S / POLL_S)):
        if is_healthy(server.status_port) and _listens(server.grpc_port):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(POLL_S)
            break
    pytest.fail(f"Triton did not start: {server.log.read_text()[-2000:]}")


def is_healthy(status_port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{status_port}/healthz", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
