"""What every `InferenceClient` promises, held for the fake and for the Triton client alike.

The Triton client speaks real gRPC on the loopback interface to a server that plays the same script.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import grpc
import pytest

from orchestrator.generation.fake import FakeInferenceClient, Step
from orchestrator.generation.inference import (
    DeadlineExpiredError,
    EngineFailureError,
    InferenceClient,
    InferenceError,
    InferenceRequest,
    ReplicaUnavailableError,
    RequestRejectedError,
    TokenGroup,
)
from orchestrator.generation.triton import TritonClient
from tests.support.fake_triton import fake_triton, sequence, whole

LIMIT_S = 5.0
HOURS_MS = 7_200_000.0

STATUS_OF_ERROR = {
    EngineFailureError: grpc.StatusCode.INTERNAL,
    ReplicaUnavailableError: grpc.StatusCode.UNAVAILABLE,
    RequestRejectedError: grpc.StatusCode.INVALID_ARGUMENT,
    DeadlineExpiredError: grpc.StatusCode.DEADLINE_EXCEEDED,
}


class Engine:
    """A client and the other side's view: what was sent there, and whether it was cancelled."""

    def __init__(self, client: InferenceClient, cancelled: asyncio.Event) -> None:
        self.client = client
        self.cancelled = cancelled


Start = Callable[..., AbstractAsyncContextManager[Engine]]


@asynccontextmanager
async def on_fake(
    groups: Sequence[TokenGroup] = (),
    error: type[InferenceError] | None = None,
    *,
    hang: bool = False,
) -> AsyncIterator[Engine]:
    steps = [Step(0.0, group) for group in groups]
    if error is not None:
        steps.append(Step(0.0, error=error))
    if hang:
        steps.append(Step(HOURS_MS, TokenGroup(())))
    cancelled = asyncio.Event()
    yield Engine(FakeInferenceClient(lambda _: steps, on_cancel=cancelled.set), cancelled)


@asynccontextmanager
async def on_triton(
    groups: Sequence[TokenGroup] = (),
    error: type[InferenceError] | None = None,
    *,
    hang: bool = False,
) -> AsyncIterator[Engine]:
    async with fake_triton() as server:
        server.groups, server.hang = list(groups), hang
        server.failure = None if error is None else STATUS_OF_ERROR[error]
        client = TritonClient(f"127.0.0.1:{server.port}")
        try:
            yield Engine(client, server.cancelled)
        finally:
            await client.close()


@pytest.fixture(params=[on_fake, on_triton])
def start(request: pytest.FixtureRequest) -> Start:
    chosen: Start = request.param
    return chosen


async def groups_of(client: InferenceClient, asked: InferenceRequest) -> list[TokenGroup]:
    async with client.open(asked) as stream:
        return [group async for group in stream]


async def test_groups_arrive_in_order_and_then_the_stream_ends(start: Start) -> None:
    groups = [TokenGroup((1, 2)), TokenGroup((3,)), whole(())]
    async with start(groups) as engine:
        assert await groups_of(engine.client, sequence()) == groups
        assert not engine.cancelled.is_set()


async def test_a_stream_knows_who_serves_it_once_a_group_has_come(start: Start) -> None:
    async with start([whole((1,))]) as engine, engine.client.open(sequence()) as stream:
        assert stream.replica == ""
        async for _ in stream:
            assert stream.replica != ""


async def test_one_client_carries_many_sequences_at_once(start: Start) -> None:
    async with start([whole((1, 2, 3))]) as engine:
        runs = [groups_of(engine.client, sequence()) for _ in range(20)]
        assert await asyncio.gather(*runs) == [[whole((1, 2, 3))]] * 20


@pytest.mark.parametrize("error", list(STATUS_OF_ERROR))
async def test_a_failure_is_raised_after_the_groups_and_without_words(
    start: Start, error: type[InferenceError]
) -> None:
    async with start([TokenGroup((1,))], error) as engine, engine.client.open(sequence()) as stream:
        assert await anext(stream) == TokenGroup((1,))
        with pytest.raises(error) as caught:
            await anext(stream)
        assert str(caught.value) == ""


async def test_a_passed_deadline_is_raised_as_that(start: Start) -> None:
    async with start(hang=True) as engine:
        with pytest.raises(DeadlineExpiredError):
            await groups_of(engine.client, sequence(remaining_ms=30))


async def test_leaving_early_cancels_the_sequence(start: Start) -> None:
    async with start([TokenGroup((1,))], hang=True) as engine:
        async with engine.client.open(sequence()) as stream:
            assert await anext(stream) == TokenGroup((1,))
        await asyncio.wait_for(engine.cancelled.wait(), LIMIT_S)


async def test_a_cancelled_task_cancels_the_sequence_and_stays_cancelled(start: Start) -> None:
    async with start([TokenGroup((1,))], hang=True) as engine:
        arrived = asyncio.Event()

        async def read() -> None:
            async with engine.client.open(sequence()) as stream:
                async for _ in stream:
                    arrived.set()

        work = asyncio.create_task(read())
        await asyncio.wait_for(arrived.wait(), LIMIT_S)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await asyncio.wait_for(engine.cancelled.wait(), LIMIT_S)
