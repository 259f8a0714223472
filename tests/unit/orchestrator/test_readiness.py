"""Readiness with in-memory HTTP for the replicas and a listener of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from orchestrator.pools import Pools
from orchestrator.readiness import Readiness
from orchestrator.settings import Address, ReplicaSettings
from tests.support.orchestrator import prompt_engine

SLOTS = tuple(ReplicaSettings(f"slot-{n}", f"http://replica-{n}") for n in range(2))


def replicas(**status_by_host: int) -> httpx.AsyncClient:
    """HTTP that answers for the hosts given; nobody listens on others."""

    def answer(request: httpx.Request) -> httpx.Response:
        status = status_by_host.get(request.url.host.replace("-", "_"))
        if status is None:
            raise httpx.ConnectError("nobody listens")
        assert request.url.path == "/healthz"
        return httpx.Response(status)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


def loaded() -> Pools:
    pools = Pools({"fast": Path("engine")}, lambda _: prompt_engine())
    pools.load_missing()
    return pools


async def missing(pools: Pools, http: httpx.AsyncClient, *, listening: bool = True) -> list[str]:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    if not listening:
        server.close()
        await server.wait_closed()
    found = await Readiness(pools, Address("127.0.0.1", port), SLOTS, http).missing()
    server.close()
    return found


async def test_one_ready_replica_is_enough() -> None:
    assert await missing(loaded(), replicas(replica_0=503, replica_1=200)) == []


async def test_without_a_ready_replica_each_is_named_with_what_it_said() -> None:
    assert await missing(loaded(), replicas(replica_0=503)) == [
        "no replica is ready: slot-0: status 503; slot-1: ConnectError"
    ]


async def test_a_listener_that_is_not_there_is_named() -> None:
    (found,) = await missing(loaded(), replicas(replica_0=200), listening=False)
    assert found.startswith("inference listener 127.0.0.1:")
    assert found.endswith("ConnectionRefusedError")


async def test_a_pool_without_its_engine_is_named() -> None:
    pools = Pools({"fast": Path("engine")}, lambda _: prompt_engine())
    assert await missing(pools, replicas(replica_0=200)) == [
        "pool fast: its engine is being loaded"
    ]
