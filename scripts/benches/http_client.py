"""A lean HTTP/1.1 client on one keep-alive connection, for measuring.

A general client library costs 0.5 to 1 ms of Python a request on the very cores that serve it,
which would be booked as the server's. This one writes one buffer and parses with httptools.
It can also break the connection at a chosen moment, which is how an editor cancels.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httptools


@dataclass
class HttpAnswer:
    """A whole answer: status, lower-case headers, body, and when it was complete (monotonic s)."""

    status: int
    headers: dict[str, str]
    body: bytes
    finished_s: float

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class _Reader:
    """Callbacks of the httptools parser for one answer."""

    done: asyncio.Future[None]
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class HttpConnection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader: _Reader | None = None
        self._parser: Any = None

    @classmethod
    async def open(cls, host: str, port: int) -> "HttpConnection":
        """Connects to host and port; raises OSError when nobody listens."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport to write to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hands what arrived to the parser of the request in flight."""
        if self._parser is not None:
            self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails the answer that is still awaited."""
        if self._reader is not None and not self._reader.done.done():
            self._reader.done.set_exception(exc or ConnectionResetError("closed by the server"))

    def send(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Writes a POST with a JSON body; `answer` waits for what comes back."""
        assert self._transport is not None
        self._reader = _Reader(asyncio.get_running_loop().create_future())
        self._parser = httptools.HttpResponseParser(self._reader)
        lines = [
            f"POST {path} HTTP/1.1",
            "host: warmline",
            "content-type: application/json",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        self._transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def answer(self) -> HttpAnswer:
        """The whole answer to the request sent last."""
        assert self._reader is not None
        await self._reader.done
        finished_s = time.perf_counter()
        return HttpAnswer(
            self._parser.get_status_code(),
            self._reader.headers,
            bytes(self._reader.body),
            finished_s,
        )

    async def post(self, path: str, body: bytes) -> HttpAnswer:
        """Sends and waits."""
        self.send(path, body)
        return await self.answer()

    def reset(self) -> None:
        """Breaks the connection at once, as an editor does when a key is pressed."""
        if self._transport is not None:
            if self._reader is not None and not self._reader.done.done():
                self._reader.done.cancel()
            self._transport.abort()
