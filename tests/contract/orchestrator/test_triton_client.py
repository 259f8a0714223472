"""What only the Triton client does; the promises of every client are in tests/contract."""

from __future__ import annotations

import pytest

from orchestrator.generation.inference import (
    ReplicaUnavailableError,
)
from orchestrator.generation.triton import TritonClient
from tests.support.fake_triton import SLOT, fake_triton, sequence, whole


async def served_by(port: int) -> str:
    client = TritonClient(f"127.0.0.1:{port}")
    try:
        async with client.open(sequence(700)) as stream:
            async for _ in stream:
                pass
            return stream.replica
    finally:
        await client.close()


async def test_a_call_carries_pool_session_and_its_deadline() -> None:
    async with fake_triton() as server:
        server.groups = [whole((1,))]
        await served_by(server.port)
        sent = server.metadata[0]
        assert sent["x-warmline-pool"] == "fast"
        assert sent["x-warmline-session"] == "k" * 32
        assert 0 < server.time_left_s[0] < 1.5, "0.7 s, and what the two clocks differ by"


async def test_the_mode_that_crashes_the_server_is_never_asked_for() -> None:
    """With `triton_grpc_error` tritonserver 2.51 ends by SIGSEGV after some hundreds of errors."""
    async with fake_triton() as server:
        server.groups = [whole((1,))]
        await served_by(server.port)
        assert "triton_grpc_error" not in server.metadata[0]


async def test_the_slot_is_the_one_that_envoy_names() -> None:
    async with fake_triton() as server:
        server.groups = [whole((1,))]
        assert await served_by(server.port) == SLOT


async def test_nobody_listening_is_an_unavailable_replica() -> None:
    async with fake_triton() as server:
        port = server.port
    with pytest.raises(ReplicaUnavailableError):
        await served_by(port)


async def test_a_sequence_that_has_reported_is_left_to_end_and_not_reset() -> None:
    """Frames of one connection keep their order: a reset would have come before the second call."""
    async with fake_triton() as server:
        server.groups, server.hang = [whole((1,))], True
        client = TritonClient(f"127.0.0.1:{server.port}")
        for expected_calls in (1, 2):
            async with client.open(sequence(60_000)) as stream:
                assert [group async for group in stream] == server.groups
            assert len(server.messages) == expected_calls
            assert not server.cancelled.is_set()
        await client.close()
