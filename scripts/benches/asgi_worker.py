"""The served side of the `asgi-server` bench: the real application, a fake engine, one server.

    python -m scripts.benches.asgi_worker --server uvicorn --port N --engine-dir DIR

A request for one token never gets it, so that it can be left in the middle; `/open-stream` sends
one event and waits. Whoever notices that the client has gone prints `left <monotonic ns>`.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop
from fastapi import FastAPI
from granian import Granian
from granian.constants import HTTPModes, Interfaces, Loops
from prometheus_client import CollectorRegistry
from starlette.routing import Route

from orchestrator.app import NativeCompletions, build_app
from orchestrator.clock import SystemClock
from orchestrator.generation.fake import FakeInferenceClient, Step, answer_with
from orchestrator.generation.inference import InferenceRequest
from orchestrator.http import ClientLeftError, Receive, Scope, Send, until_client_leaves
from orchestrator.main import build_pipeline, build_pools, build_sessions
from orchestrator.record.metrics import RequestMetrics
from orchestrator.serving import http_server
from orchestrator.session import SessionHasher
from orchestrator.settings import Address, PoolSettings, Settings

ADDRESS = "127.0.0.1"
OPEN_STREAM = "/open-stream"
SUGGESTION = "return value"
_ENGINE_DIR = "WARMLINE_BENCH_ENGINE_DIR"
_FOREVER_MS = 600_000


def say_left() -> None:
    """Tells the bench, on standard output, when a client's leaving was noticed."""
    print(f"left {time.monotonic_ns()}", flush=True)


def build() -> FastAPI:
    """The application as a worker serves it, over an engine that answers at once."""
    folder = os.environ[_ENGINE_DIR]
    nowhere = Address(ADDRESS, 1)
    settings = Settings(
        settings_version=1,
        worker="bench",
        listen=nowhere,
        metrics=nowhere,
        inference=nowhere,
        pools=(PoolSettings("fast", folder), PoolSettings("large", folder)),
        session_secret_file="none",  # noqa: S106 - a name of a file that is never read
        development_tenant="development",
    )
    pools = build_pools(settings)
    pools.load_missing()
    if pools.missing:
        raise SystemExit(f"asgi-server: {pools.missing}")
    metrics, clock = RequestMetrics(CollectorRegistry()), SystemClock()
    affinity, epochs = build_sessions(settings)
    pipeline = build_pipeline(
        settings,
        pools=pools,
        client=_client(pools.engine("fast").tokenizer.encode(SUGGESTION)),
        hasher=SessionHasher(bytes(32)),
        affinity=affinity,
        epochs=epochs,
        metrics=metrics,
        clock=clock,
    )
    app = build_app(NativeCompletions(pipeline, metrics, clock, "development"), _nothing_missing)
    app.router.routes.append(Route(OPEN_STREAM, _OpenStream(), methods=["POST"]))
    return app


def serve(server: str, port: int) -> None:
    """Serves until it is stopped: one process that runs Python, HTTP/1.1, uvloop."""
    if server == "uvicorn":
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(http_server(build(), Address(ADDRESS, port)).serve())
        return
    Granian(
        f"{__name__ if __name__ != '__main__' else 'scripts.benches.asgi_worker'}:build",
        address=ADDRESS,
        port=port,
        interface=Interfaces.ASGINL,
        factory=True,
        workers=1,
        runtime_threads=1,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        websockets=False,
        log_access=False,
        log_enabled=False,
    ).serve()


def _client(answer: Sequence[int]) -> FakeInferenceClient:
    at_once, never = answer_with(list(answer)), answer_with(list(answer), _FOREVER_MS)

    def script(request: InferenceRequest) -> Sequence[Step]:
        return (never if request.max_tokens == 1 else at_once)(request)

    client = FakeInferenceClient(script, on_cancel=say_left)
    client.keep_requests = False
    return client


async def _nothing_missing() -> list[str]:
    return []


class _OpenStream:
    """Sends the head of a stream of events and then waits for the client to go."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True})
        try:
            await until_client_leaves(receive, asyncio.sleep(_FOREVER_MS / 1000))
        except ClientLeftError:
            say_left()


def main() -> None:
    """Command line of the served side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=("uvicorn", "granian"), required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--engine-dir", type=Path, required=True)
    arguments = parser.parse_args()
    os.environ[_ENGINE_DIR] = str(arguments.engine_dir)
    serve(arguments.server, arguments.port)


if __name__ == "__main__":
    main()
