"""The ASGI side of a completion: read a bounded body, notice that the client left, send an answer.

Plain ASGI instead of a framework's request and response objects: this is the hot path, and those
objects cost more than all of our own stages but tokenisation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any, TypeVar

from orchestrator.wire.malformed import BodyTooLargeError

BODY_BYTES_MAX = 1024 * 1024

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]
Result = TypeVar("Result")


class ClientLeftError(Exception):
    """The client closed the connection or reset the stream before it had its answer."""


async def read_body(headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """The request's body, at most `BODY_BYTES_MAX` bytes.

    Raises `BodyTooLargeError` as soon as the length is known to be over the limit, and
    `ClientLeftError`.
    """
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > BODY_BYTES_MAX:
        raise _too_large(int(declared))
    chunks, length, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        chunk = message.get("body", b"")
        length += len(chunk)
        if length > BODY_BYTES_MAX:
            raise _too_large(length)
        chunks.append(chunk)
        more = message.get("more_body", False)
    return b"".join(chunks)


async def until_client_leaves(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`; cancels it and raises `ClientLeftError` when the client leaves first.

    `work` runs in the caller's own task, so that a cancel from outside reaches it too; only the
    watch for the disconnect is a task of its own.
    """
    task = asyncio.current_task()
    assert task is not None, "called outside of a task"
    left = False

    async def watch() -> None:
        nonlocal left
        while (await receive())["type"] != "http.disconnect":
            pass
        left = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if not left:
            raise
        task.uncancel()
        raise ClientLeftError from None
    finally:
        watcher.cancel()


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes = b"application/json",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Sends a whole answer."""
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [
            (b"content-type", content_type),
            (b"content-length", str(len(body)).encode()),
            *headers,
        ],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})


def _too_large(length: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"body: at most {BODY_BYTES_MAX} bytes, got {length} or more; "
        "send less of the document around the cursor"
    )
