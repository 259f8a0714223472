"""The replica as a process: idle, under cancels, stuck, and when it ends."""

import os
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.contract.replica.engine_client import GrpcTarget, RefusedError, tensors_of
from tests.contract.replica.triton_server import (
    RunningTriton,
    is_healthy,
    reference_engine,
    running_triton,
)

pytestmark = pytest.mark.component

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference_engine(tmp_path_factory.mktemp("engine") / "reference")


@pytest.fixture(scope="module")
def server(engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    # A cache that is soon full: until then its pages count as growth.
    folder = tmp_path_factory.mktemp("server")
    with running_triton(folder, engine, WARMLINE_CACHE_BYTES=str(24 * 2**20)) as running:
        yield running


def request(length: int = 200, output: int = 200, salt: int = 0) -> dict[str, object]:
    rng = random.Random(salt)
    return {
        "input_ids": [rng.randrange(100, 8_000) for _ in range(length)],
        "request_output_len": output,
        "cache_salt": salt.to_bytes(16, "little"),
        "streaming": True,
    }


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(LIMIT_S / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    pytest.fail("the condition did not come true in time")


def is_idle(target: GrpcTarget) -> bool:
    load = target.load()
    return load["live_sequences"] == load["waiting_sequences"] == 0


def stub_of(server: RunningTriton) -> psutil.Process:
    (stub,) = psutil.Process(server.process.pid).children()
    return stub


def health(status_port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{status_port}/healthz", timeout=10) as ok:
            return ok.status, ok.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_killed_server_leaves_no_stub_that_answers_for_it(engine: Path, tmp_path: Path) -> None:
    with running_triton(tmp_path, engine, WARMLINE_ENGINE="fake") as server:
        stub = stub_of(server)
        server.process.send_signal(signal.SIGKILL)
        wait_until(lambda: not stub.is_running() or stub.status() == psutil.STATUS_ZOMBIE)


def test_an_idle_replica_uses_no_processor(server: RunningTriton) -> None:
    target = GrpcTarget(server.grpc_port, server.status_port)
    list(target.start(tensors_of(**request())).responses())
    wait_until(lambda: is_idle(target))
    stub = stub_of(server)
    before, started = stub.cpu_times(), time.monotonic()
    threading.Event().wait(2.0)
    after, elapsed = stub.cpu_times(), time.monotonic() - started
    used = after.user + after.system - before.user - before.system
    assert used / elapsed < 0.02


def test_random_cancels_cost_a_step_each_leave_nothing_behind_and_no_memory(
    server: RunningTriton,
) -> None:
    target = GrpcTarget(server.grpc_port, server.status_port)
    rng = random.Random(5)
    stub = stub_of(server)
    before = target.load()
    resident: list[int] = []
    for number in range(500):
        length = rng.choice([30, 90, 300, 600])
        call = target.start(tensors_of(**request(length, 200, number % 20)))
        if rng.random() < 0.7:
            next(call.responses())
        threading.Event().wait(rng.random() * 0.02)
        call.cancel()
        if number in (199, 499):
            wait_until(lambda: is_idle(target))
            resident.append(stub.memory_info().rss)
    after = target.load()
    cancelled = after["cancelled_total"] - before["cancelled_total"]
    late = "tokens_decoded_after_cancel_total"
    assert cancelled >= 400
    assert after[late] - before[late] <= cancelled
    assert resident[1] - resident[0] < 6 * 2**20


def test_the_server_survives_thousands_of_refusals(engine: Path, tmp_path: Path) -> None:
    """With the metadata `triton_grpc_error` some hundreds of them crash it."""
    refused = {**request(20, 3), "cache_salt": bytes(8)}
    with running_triton(tmp_path, engine, WARMLINE_ENGINE="fake") as server:
        target = GrpcTarget(server.grpc_port, server.status_port)
        for _ in range(3_000):
            with pytest.raises(RefusedError, match="16 to 64 bytes"):
                list(target.start(tensors_of(**refused)).responses())
        (answer,) = target.start(tensors_of(**request(20, 1))).responses()
        assert len(answer.output_ids) == 1


def test_a_step_over_its_limit_makes_the_replica_unhealthy_until_it_ends(
    engine: Path, tmp_path: Path
) -> None:
    pace = {"WARMLINE_ENGINE": "fake", "WARMLINE_FAKE_STEP_US": "600000"}
    with running_triton(tmp_path, engine, WARMLINE_STEP_LIMIT_MS="100", **pace) as server:
        target = GrpcTarget(server.grpc_port, server.status_port)
        call = target.start(tensors_of(**request(20, 3)))
        wait_until(lambda: health(server.status_port)[0] == 503)
        assert target.load()["live_sequences"] == 1
        assert sum(len(response.output_ids) for response in call.responses()) == 3
        wait_until(lambda: health(server.status_port) == (200, "ok\n"))


def test_termination_ends_running_requests_and_every_process(engine: Path, tmp_path: Path) -> None:
    with running_triton(tmp_path, engine, WARMLINE_ENGINE="fake") as server:
        target = GrpcTarget(server.grpc_port, server.status_port)
        stub = stub_of(server)
        list(target.start(tensors_of(**request(20, 3))).responses())
        server.process.terminate()
        assert server.process.wait(20) == 0
        wait_until(lambda: not stub.is_running())


def test_a_killed_server_takes_its_stub_along(engine: Path, tmp_path: Path) -> None:
    with running_triton(tmp_path, engine, WARMLINE_ENGINE="fake") as server:
        stub = stub_of(server)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        wait_until(lambda: not is_healthy(server.status_port))
        wait_until(lambda: not stub.is_running())
