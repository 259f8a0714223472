"""The Triton client over real gRPC on the loopback interface, against a scripted server."""

from __future__ import annotations

import asyncio
from array import array

import grpc
import pytest

from orchestrator.generation.inference import (
    DeadlineExpiredError,
    EngineFailureError,
    InferenceError,
    InferenceRequest,
    ReplicaUnavailableError,
    RequestRejectedError,
    StopRule,
    TokenGroup,
)
from orchestrator.generation.triton import TritonClient
from tests.support.fake_triton import SLOT, FakeTriton, fake_triton, whole

LIMIT_S = 5.0


def sequence(remaining_ms: int = 5000) -> InferenceRequest:
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


async def groups_of(fake: FakeTriton, asked: InferenceRequest) -> tuple[list[TokenGroup], str]:
    client = TritonClient(f"127.0.0.1:{fake.port}")
    try:
        async with client.open(asked) as stream:
            return [group async for group in stream], stream.replica
    finally:
        await client.close()


async def test_groups_arrive_in_order_with_the_slot_that_sent_them() -> None:
    async with fake_triton() as fake:
        fake.groups = [TokenGroup((1, 2)), TokenGroup((3,)), whole(())]
        assert await groups_of(fake, sequence()) == (fake.groups, SLOT)


async def test_a_call_carries_pool_session_and_its_deadline() -> None:
    async with fake_triton() as fake:
        fake.groups = [whole((1,))]
        await groups_of(fake, sequence(remaining_ms=700))
        sent = fake.metadata[0]
        assert sent["x-warmline-pool"] == "fast"
        assert sent["x-warmline-session"] == "k" * 32
        assert sent["triton_grpc_error"] == "true"
        assert 0 < fake.time_left_s[0] <= 0.7


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, RequestRejectedError),
        (grpc.StatusCode.UNAVAILABLE, ReplicaUnavailableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineExpiredError),
        (grpc.StatusCode.INTERNAL, EngineFailureError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, EngineFailureError),
    ],
)
async def test_a_status_becomes_an_error_of_ours_without_its_words(
    status: grpc.StatusCode, error: type[InferenceError]
) -> None:
    async with fake_triton() as fake:
        fake.failure = status
        with pytest.raises(error) as caught:
            await groups_of(fake, sequence())
        assert str(caught.value) == ""
        assert caught.value.__suppress_context__


async def test_a_passed_deadline_ends_the_call_and_the_sequence() -> None:
    async with fake_triton() as fake:
        fake.hang = True
        with pytest.raises(DeadlineExpiredError):
            await groups_of(fake, sequence(remaining_ms=30))
        await asyncio.wait_for(fake.cancelled.wait(), LIMIT_S)


async def test_leaving_early_cancels_the_sequence() -> None:
    async with fake_triton() as fake:
        fake.groups, fake.hang = [TokenGroup((1,))], True
        client = TritonClient(f"127.0.0.1:{fake.port}")
        async with client.open(sequence()) as stream:
            async for group in stream:
                assert group == TokenGroup((1,))
                break
        await asyncio.wait_for(fake.cancelled.wait(), LIMIT_S)
        await client.close()


async def test_a_cancelled_task_cancels_the_sequence_and_stays_cancelled() -> None:
    async with fake_triton() as fake:
        fake.hang = True
        work = asyncio.create_task(groups_of(fake, sequence()))
        await asyncio.wait_for(fake.started.wait(), LIMIT_S)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await asyncio.wait_for(fake.cancelled.wait(), LIMIT_S)


async def test_nobody_listening_is_an_unavailable_replica() -> None:
    async with fake_triton() as fake:
        port = fake.port
    fake.port = port
    with pytest.raises(ReplicaUnavailableError):
        await groups_of(fake, sequence())
