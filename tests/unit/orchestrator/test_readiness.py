"""Readiness over a snapshot of the replicas and a listener of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orchestrator.clock import ManualClock
from orchestrator.load.fleet import FULL_AFTER_MS, Fleet, Heard, Refused
from orchestrator.pools import Pools
from orchestrator.readiness import Readiness
from orchestrator.settings import Address
from tests.support.orchestrator import load_report, prompt_engine

BROKEN = Refused("status 503")


def replicas(*heard: Heard | None) -> Fleet:
    """Slots that said this at time zero; None was not asked yet."""
    fleet = Fleet.unknown(f"slot-{number}" for number in range(len(heard)))
    for number, each in enumerate(heard):
        if each is not None:
            fleet = fleet.heard(f"slot-{number}", each, 0.0, 0.0)
    return fleet


def loaded() -> Pools:
    pools = Pools({"fast": Path("engine")}, lambda _: prompt_engine())
    pools.load_missing()
    return pools


async def missing(
    pools: Pools, fleet: Fleet, *, listening: bool = True, now_ms: float = 0.0
) -> list[str]:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    if not listening:
        server.close()
        await server.wait_closed()
    listener, clock = Address("127.0.0.1", port), ManualClock(now_ms)
    found = await Readiness(pools, listener, lambda: fleet, clock).missing()
    server.close()
    return found


async def test_one_ready_replica_is_enough() -> None:
    assert await missing(loaded(), replicas(BROKEN, load_report())) == []


async def test_without_a_ready_replica_each_is_named_with_what_it_said() -> None:
    assert await missing(loaded(), replicas(BROKEN, None)) == [
        "no replica is ready: slot-0: status 503; slot-1: not asked yet"
    ]


async def test_a_replica_that_stopped_reporting_is_not_ready() -> None:
    fleet = replicas(load_report())
    assert await missing(loaded(), fleet, now_ms=FULL_AFTER_MS) == []
    assert len(await missing(loaded(), fleet, now_ms=FULL_AFTER_MS + 1)) == 1


async def test_a_listener_that_is_not_there_is_named() -> None:
    (found,) = await missing(loaded(), replicas(load_report()), listening=False)
    assert found.startswith("inference listener 127.0.0.1:")
    assert found.endswith("ConnectionRefusedError")


async def test_a_pool_without_its_engine_is_named() -> None:
    pools = Pools({"fast": Path("engine")}, lambda _: prompt_engine())
    assert await missing(pools, replicas(load_report())) == [
        "pool fast: its engine is being loaded"
    ]
