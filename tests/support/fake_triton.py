"""A gRPC server that speaks the model's contract, for tests of the client and of whole workers."""

from __future__ import annotations

import asyncio
import struct
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from orchestrator.generation.inference import (
    EngineReport,
    FinishReason,
    InferenceRequest,
    StopRule,
    TokenGroup,
)
from orchestrator.generation.triton_messages import InferRequest, StreamInferResponse

SLOT = "slot-7"


class FakeTriton:
    """Plays `groups` for every request; hangs after them while `hang` is set.

    Keeps what it was asked, and counts the calls that were cancelled.
    """

    def __init__(self) -> None:
        self.groups: list[TokenGroup] = []
        self.hang = False
        self.failure: grpc.StatusCode | None = None
        self.messages: list[Any] = []
        self.metadata: list[dict[str, str]] = []
        self.time_left_s: list[float] = []
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.port = 0

    async def stream(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """The method `ModelStreamInfer`."""
        async for message in requests:
            self.messages.append(message)
            self.metadata.append(dict(context.invocation_metadata()))
            self.time_left_s.append(context.time_remaining())
            await context.send_initial_metadata((("x-warmline-replica", SLOT),))
            for group in self.groups:
                yield response_of(group)
            self.started.set()
            if self.failure is not None:
                await context.abort(self.failure, "quotes the prompt")
            if self.hang:
                await self._hang()

    async def _hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


def response_of(group: TokenGroup) -> Any:
    """A response as the replica sends it."""
    message = StreamInferResponse()
    tensors = {"output_ids": struct.pack(f"<{len(group.token_ids)}i", *group.token_ids)}
    if (report := group.report) is not None:
        tensors |= {
            "finish_reason": struct.pack("<i", report.finish_reason),
            "cached_tokens": struct.pack("<i", report.cached_tokens),
            "queue_us": struct.pack("<q", report.queue_us),
            "prefill_us": struct.pack("<q", report.prefill_us),
            "decode_us": struct.pack("<q", report.decode_us),
        }
    for name, content in tensors.items():
        message.infer_response.outputs.add(name=name)
        message.infer_response.raw_output_contents.append(content)
    return message


def sequence(remaining_ms: int = 60_000) -> InferenceRequest:
    """A request as both clients are asked it, with this much time left."""
    return InferenceRequest(
        pool="fast",
        session_key="k" * 32,
        token_ids=array("i", [6, 300, 2]),
        cache_salt=b"s" * 32,
        max_tokens=64,
        stop_rule=StopRule.NONE,
        streaming=True,
        remaining_ms=remaining_ms,
    )


def whole(token_ids: Any, reason: FinishReason = FinishReason.STOP_RULE) -> TokenGroup:
    """The one response to a line."""
    return TokenGroup(tuple(token_ids), EngineReport(reason, 3, 1000, 2000, 3000))


@asynccontextmanager
async def fake_triton() -> AsyncIterator[FakeTriton]:
    """A listening server, stopped at the block's end."""
    fake, server = FakeTriton(), grpc.aio.server()
    method = grpc.stream_stream_rpc_method_handler(
        fake.stream, InferRequest.FromString, StreamInferResponse.SerializeToString
    )
    handlers = {"ModelStreamInfer": method}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("inference.GRPCInferenceService", handlers),)
    )
    fake.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield fake
    finally:
        await server.stop(0)
