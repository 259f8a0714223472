"""In-process stand-ins for what Envoy talks to: a replica and an orchestrator worker."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import RequestReceived
from tritonclient.grpc import service_pb2, service_pb2_grpc


class FakeReplica(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers every stream with its own label, and its status with `status`.

    A request whose model name is "hold" gets one answer and then an open stream, until `release`
    is set; "abort" ends with INTERNAL. `open_streams` and `cancelled` count what is going on.
    GET /load reports the open streams and `warm_sessions`, or nothing while that is None.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.port = 0
        self.status_port = 0
        self.status = 200
        self.served = 0
        self.open_streams = 0
        self.cancelled = 0
        self.warm_sessions: int | None = 0
        self.metadata: dict[str, str] = {}
        self.deadline_s: float | None = None
        self.release = asyncio.Event()

    async def start(self, port: int = 0) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()
        self._status = await asyncio.start_server(self._answer_status, "127.0.0.1", 0)
        self.status_port = self._status.sockets[0].getsockname()[1]

    async def die(self) -> None:
        """End at once, as a killed process does: connections close, ports refuse."""
        self._status.close()
        self.status = 0
        await self._server.stop(None)

    async def ModelStreamInfer(  # noqa: N802  # the name is the protocol's
        self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[Any]:
        self.served += 1
        self.metadata = dict(context.invocation_metadata() or ())
        self.deadline_s = context.time_remaining()
        self.open_streams += 1
        try:
            async for request in requests:
                if request.model_name == "abort":
                    await context.abort(grpc.StatusCode.INTERNAL, "asked to")
                yield self._answer()
                if request.model_name == "hold":
                    await self.release.wait()
                    yield self._answer()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open_streams -= 1

    async def ServerReady(  # noqa: N802  # the name is the protocol's
        self, _request: Any, _context: object
    ) -> Any:
        return service_pb2.ServerReadyResponse(ready=True)

    def _answer(self) -> Any:
        response = service_pb2.ModelInferResponse(model_name=self.label)
        return service_pb2.ModelStreamInferResponse(infer_response=response)

    async def _answer_status(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            request = await reader.readuntil(b"\r\n\r\n")
            if self.status:
                body = self._load() if request.startswith(b"GET /load ") else b""
                length = f"content-length: {len(body)}\r\nconnection: close"
                writer.write(f"HTTP/1.1 {self.status} X\r\n{length}\r\n\r\n".encode() + body)
        writer.close()

    def _load(self) -> bytes:
        if self.warm_sessions is None:
            return b""
        load = {"live_sequences": self.open_streams, "waiting_sequences": 0}
        return json.dumps(load | {"warm_sessions": self.warm_sessions}).encode()


class ResettingServer:
    """An HTTP/2 server that resets every stream with REFUSED_STREAM, and counts them."""

    def __init__(self) -> None:
        self.port = 0
        self.resets = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                for event in connection.receive_data(data):
                    if isinstance(event, RequestReceived) and event.stream_id:
                        connection.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
                        self.resets += 1
                writer.write(connection.data_to_send())
        writer.close()


@dataclass
class HttpRequest:
    """What a worker received."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class FakeWorker:
    """An HTTP/1.1 server that answers 200 with its name, and records what it got.

    `/hold` is never answered: `dropped` counts the connections that closed meanwhile.
    `/fail` is answered 500.
    """

    name: str
    port: int = 0
    requests: list[HttpRequest] = field(default_factory=list)
    held: int = 0
    dropped: int = 0
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End at once: the port refuses and connections close."""
        self._server.close()
        for writer in self._connections:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                request = await self._read(reader)
                if request.path == "/healthz":
                    await self._answer(writer, 200)
                    continue
                self.requests.append(request)
                if request.path == "/hold":
                    await self._hold(reader)
                    break
                await self._answer(writer, 500 if request.path.endswith("fail") else 200)
        self._connections.discard(writer)
        writer.close()

    async def _hold(self, reader: asyncio.StreamReader) -> None:
        self.held += 1
        await reader.read(1)  # ends only when the peer closes
        self.dropped += 1

    async def _read(self, reader: asyncio.StreamReader) -> HttpRequest:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        start, *lines = head.strip().split("\r\n")
        method, path, _version = start.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        await reader.readexactly(int(headers.get("content-length", "0")))
        return HttpRequest(method, path, headers)

    async def _answer(self, writer: asyncio.StreamWriter, status: int) -> None:
        body = self.name.encode()
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
