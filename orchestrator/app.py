"""The routes: I/O only. What is decided is decided elsewhere."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.routing import Route

from orchestrator.clock import Clock
from orchestrator.deadline import receipt_age_ms
from orchestrator.http import (
    ClientLeftError,
    Receive,
    Scope,
    Send,
    read_body,
    respond,
    until_client_leaves,
)
from orchestrator.identity import Headers, IdentityError, client_of, principal_of
from orchestrator.pipeline import Pipeline
from orchestrator.record.metrics import RequestMetrics
from orchestrator.record.recorder import Answer
from orchestrator.wire import native
from orchestrator.wire.malformed import RequestError

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]
FindMissing = Callable[[], Awaitable[list[str]]]


class NativeCompletions:
    """`POST /v1/inline-completions`, as a plain ASGI endpoint."""

    def __init__(
        self, pipeline: Pipeline, metrics: RequestMetrics, clock: Clock, development_tenant: str
    ) -> None:
        self._pipeline = pipeline
        self._metrics = metrics
        self._clock = clock
        self._development_tenant = development_tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; sends nothing to a client that has left."""
        arrived_ms = self._clock.now_ms()
        headers: Headers = dict(scope["headers"])
        try:
            envelope = self._envelope(headers, arrived_ms)
            request = native.parse(await read_body(headers, receive), envelope)
            with self._metrics.in_flight.track_inprogress():
                answer = await until_client_leaves(receive, self._pipeline.complete(request))
        except IdentityError as error:
            await self._refuse(send, 401, native.render_error(error, "identity", None))
        except RequestError as error:
            await self._refuse(
                send, error.status, native.render_error(error, error.code, error.field)
            )
        except ClientLeftError:
            return
        else:
            await _send(send, answer)

    def _envelope(self, headers: Headers, arrived_ms: float) -> native.Envelope:
        stamp = headers.get(b"x-warmline-received-ms", b"").decode("latin-1")
        return native.Envelope(
            completion_id=str(uuid.uuid4()),
            principal=principal_of(headers, self._development_tenant),
            client=client_of(headers),
            received_ms=arrived_ms - receipt_age_ms(stamp, self._clock.epoch_ms()),
            arrived_ms=arrived_ms,
        )

    async def _refuse(self, send: Send, status: int, body: bytes) -> None:
        self._metrics.malformed(status)
        await respond(send, status, body)


async def _send(send: Send, answer: Answer) -> None:
    headers = (
        (b"x-request-id", answer.request.request_id.encode()),
        (b"x-policy-version", str(answer.record.policy_version).encode()),
        (b"x-debounce-hint-ms", str(answer.debounce_hint_ms).encode()),
    )
    if answer.request.stream:
        streaming = (*headers, (b"cache-control", b"no-store"))
        events = native.render_events(answer)
        await respond(send, 200, events, b"text/event-stream; charset=utf-8", streaming)
    else:
        await respond(send, 200, native.render(answer), headers=headers)


def build_app(
    completions: NativeCompletions, find_missing: FindMissing, lifespan: Lifespan | None = None
) -> FastAPI:
    """The application with all its routes; `lifespan` opens and closes what they need."""
    app = FastAPI(title="Warmline", docs_url=None, redoc_url=None, openapi_url=None,
                  lifespan=lifespan)  # fmt: skip
    app.router.routes.append(Route("/v1/inline-completions", completions, methods=["POST"]))

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        missing = await find_missing()
        return JSONResponse({"ready": not missing, "missing": missing}, 503 if missing else 200)

    return app
