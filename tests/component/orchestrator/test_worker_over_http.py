"""A real worker process behind real HTTP, over a scripted gRPC server in place of the replicas."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx
import msgspec
import pytest
import yaml

from orchestrator.http import BODY_BYTES_MAX
from tests.support.engine_folder import engine_folder
from tests.support.fake_triton import FakeTriton, fake_triton, whole
from tests.support.orchestrator import ROOT, load_report, tokenizer

pytestmark = pytest.mark.component

PATH = "/v1/inline-completions"
BODY = {"document": {"prefix": "x = ", "suffix": "\n", "path": "a.py"}, "mode": "line"}
LIMIT_S = 20.0


@dataclass
class Worker:
    """A running worker and what stands behind it."""

    port: int
    metrics_port: int
    process: asyncio.subprocess.Process
    triton: FakeTriton

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=LIMIT_S)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await condition():  # noqa: ASYNC110 - another process sets no event of ours
            await asyncio.sleep(0.02)


async def ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).status_code == 200
    except httpx.HTTPError:
        return False


async def alive(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/healthz")).status_code == 200
    except httpx.HTTPError:
        return False


@asynccontextmanager
async def started(
    folder: Path, triton: FakeTriton, status_urls: tuple[str, ...] = ()
) -> AsyncIterator[Worker]:
    """A worker process over `folder/engine`, stopped at the block's end."""
    port, metrics_port = free_port(), free_port()
    (folder / "key").write_bytes(os.urandom(32))
    settings = {
        "settings_version": 1,
        "worker": "worker-0",
        "listen": {"address": "127.0.0.1", "port": port},
        "metrics": {"address": "127.0.0.1", "port": metrics_port},
        "inference": {"address": "127.0.0.1", "port": triton.port},
        "pools": [
            {"name": name, "engine_dir": str(folder / "engine")} for name in ("fast", "large")
        ],
        "session_secret_file": str(folder / "key"),
        "development_tenant": "development",
        "replicas": [
            {"slot": f"slot-{number}", "status_url": url} for number, url in enumerate(status_urls)
        ],
    }
    (folder / "worker.yaml").write_text(yaml.safe_dump(settings))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator.main", "--settings", str(folder / "worker.yaml")),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Worker(port, metrics_port, process, triton)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Worker]:
    """A worker that is ready, with its engine in place."""
    (folder / "engine").mkdir()
    engine_folder(folder / "engine")
    async with fake_triton() as triton, started(folder, triton) as worker:
        async with worker.http() as http:
            await until(lambda: ready(http))
        triton.groups = [whole(tokenizer().encode("a + b\n"))]
        yield worker


def raw_request(body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {PATH} HTTP/1.1\r\nhost: w\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def test_a_line_travels_to_the_replica_and_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as worker, worker.http() as http:
        answer = (await http.post(PATH, json=BODY)).json()
        assert (answer["suggestion"], answer["outcome"]) == ("a + b", "shown_candidate")
        assert answer["usage"]["cached_tokens"] == 3
        assert (answer["timings_ms"]["queue"], answer["timings_ms"]["decode"]) == (1.0, 3.0)
        assert answer["timings_ms"]["total"] > 0
        metrics = (await http.get(f"http://127.0.0.1:{worker.metrics_port}/metrics")).text
        assert 'warmline_requests_total{mode="line",outcome="shown_candidate",reason=""} 1.0' in (
            metrics
        )


async def test_a_stream_is_answered_as_events(tmp_path: Path) -> None:
    async with serving(tmp_path) as worker, worker.http() as http:
        answer = await http.post(PATH, json=BODY | {"stream": True})
        events = [
            json.loads(event.removeprefix("data: ")) for event in answer.text.split("\n\n")[:-1]
        ]
        assert events[0] == {"text": "a + b"}
        assert events[1]["outcome"] == "shown_candidate"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("abort", [False, True])
async def test_a_client_that_leaves_cancels_the_sequence_in_the_replica(
    tmp_path: Path, stream: bool, abort: bool
) -> None:
    async with serving(tmp_path) as worker:
        worker.triton.groups, worker.triton.hang = [], True
        _, writer = await asyncio.open_connection("127.0.0.1", worker.port)
        writer.write(raw_request(BODY | {"stream": stream, "mode": "block"}))
        await asyncio.wait_for(worker.triton.started.wait(), LIMIT_S)
        if abort:
            writer.transport.abort()
        else:
            writer.close()
        # Well before the deadline of two seconds would have ended it.
        await asyncio.wait_for(worker.triton.cancelled.wait(), 1.0)
        metrics_url = f"http://127.0.0.1:{worker.metrics_port}/metrics"

        async def recorded() -> bool:
            async with httpx.AsyncClient() as http:
                return 'outcome="cancelled"' in (await http.get(metrics_url)).text

        await until(recorded)


async def test_nothing_comes_after_the_deadline_and_the_answer_is_not_late(tmp_path: Path) -> None:
    async with serving(tmp_path) as worker, worker.http() as http:
        worker.triton.groups, worker.triton.hang = [], True
        answer = (await http.post(PATH, json=BODY | {"deadline_ms": 50})).json()
        assert (answer["suggestion"], answer["outcome"]) == ("", "expired")
        assert answer["timings_ms"]["total"] >= 50
        await asyncio.wait_for(worker.triton.cancelled.wait(), LIMIT_S)


async def test_a_failing_replica_is_a_fast_empty_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as worker, worker.http() as http:
        worker.triton.groups, worker.triton.failure = [], grpc.StatusCode.INTERNAL
        answer = await http.post(PATH, json=BODY)
        assert answer.status_code == 200
        assert (answer.json()["suggestion"], answer.json()["outcome"]) == ("", "failed")


async def test_what_is_malformed_or_too_large_is_refused_and_the_worker_serves_on(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as worker, worker.http() as http:
        assert (await http.post(PATH, content=b"{")).status_code == 400
        large = {"document": {"prefix": "x" * BODY_BYTES_MAX}}
        assert (await http.post(PATH, json=large)).status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(17):
                yield b" " * (BODY_BYTES_MAX // 16)

        assert (await http.post(PATH, content=chunks())).status_code == 413
        assert (await http.post(PATH, json=BODY)).json()["suggestion"] == "a + b"


async def test_readiness_names_what_is_missing_until_it_is_there(tmp_path: Path) -> None:
    status_port = free_port()
    urls = (f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{status_port}")
    async with (
        fake_triton() as triton,
        started(tmp_path, triton, urls) as worker,
        worker.http() as http,
    ):
        await until(lambda: alive(http))

        async def both_were_asked() -> bool:
            return "not asked yet" not in (await http.get("/readyz")).text

        await until(both_were_asked)
        answer = await http.get("/readyz")
        missing = " ".join(answer.json()["missing"])
        assert answer.status_code == 503
        assert "pool fast: " in missing
        assert "no replica is ready: slot-0: ConnectError; slot-1: ConnectError" in missing
        (tmp_path / "engine").mkdir()
        engine_folder(tmp_path / "engine")
        async with await asyncio.start_server(answer_status, "127.0.0.1", status_port):
            await until(lambda: ready(http))


async def answer_status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A replica's status listener: the same good answer to everything, `/load` above all."""
    await reader.readuntil(b"\r\n\r\n")
    body = msgspec.json.encode(load_report())
    head = f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    writer.close()


async def test_placements_and_standings_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path) as worker, worker.http() as http:
        for _ in range(3):
            await http.post(PATH, json=BODY)
        metrics = (await http.get(f"http://127.0.0.1:{worker.metrics_port}/metrics")).text
        assert 'warmline_affinity_requests_total{placement="first"} 1.0' in metrics
        assert 'warmline_affinity_requests_total{placement="warm"} 2.0' in metrics
        assert 'warmline_affinity_loss_total{reason="spilled"} 0.0' in metrics
        assert 'warmline_session_table_entries{table="epochs"} 1.0' in metrics


async def test_the_secret_is_rotated_while_requests_go_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as worker, worker.http() as http:
        await http.post(PATH, json=BODY)
        (tmp_path / "new-key").write_bytes(os.urandom(32))
        (tmp_path / "new-key").rename(tmp_path / "key")

        async def another_key() -> bool:
            assert (await http.post(PATH, json=BODY)).json()["outcome"] == "shown_candidate"
            return len({sent["x-warmline-session"] for sent in worker.triton.metadata}) == 2

        await until(another_key)
        salts = {
            message.raw_input_contents[[each.name for each in message.inputs].index("cache_salt")]
            for message in worker.triton.messages
        }
        assert len(salts) == 2


async def test_sigterm_ends_the_worker_cleanly(tmp_path: Path) -> None:
    async with serving(tmp_path) as worker:
        worker.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.process.wait(), LIMIT_S) == 0


async def test_unusable_settings_end_with_one_message(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("settings_version: 1\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator.main", "--settings", str(tmp_path / "bad.yaml")),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode().count("\n") == 1
    assert "missing required field" in said.decode()


async def test_a_taken_metrics_port_ends_with_one_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as worker:
        settings = yaml.safe_load((tmp_path / "worker.yaml").read_text())
        settings["listen"]["port"] = free_port()
        (tmp_path / "second.yaml").write_text(yaml.safe_dump(settings))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "orchestrator.main"),
            *("--settings", str(tmp_path / "second.yaml")),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await asyncio.wait_for(process.communicate(), LIMIT_S)
        assert process.returncode == 2
        assert f"cannot listen on 127.0.0.1:{worker.metrics_port}" in said.decode()
