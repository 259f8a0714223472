"""Draining a slot: new streams go elsewhere at once, live ones finish."""

import grpc
import pytest

from tests.component.envoy.harness import EnvoyStack, finish, until
from tests.component.envoy.traffic import typing

pytestmark = pytest.mark.component

SESSIONS = [f"session-{i}" for i in range(40)]


async def test_a_draining_slot_gets_no_new_stream_and_finishes_its_own(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    session = next(s for s in SESSIONS if placed[s] == "slot-0")
    live = stack.open_stream(session, model="hold")
    await live.read()

    stack.document["replicas"][0]["state"] = "draining"
    await stack.publish()

    assert await stack.place(SESSIONS) == dict.fromkeys(SESSIONS, "slot-1")
    assert stack.replicas["slot-0"].open_streams == 1
    stack.replicas["slot-0"].release.set()
    answer = await finish(live)
    assert (answer.code, answer.label) == (grpc.StatusCode.OK, "slot-0")


async def test_a_slot_that_serves_again_gets_its_own_sessions_back(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    for state in ("draining", "serving"):
        stack.document["replicas"][0]["state"] = state
        await stack.publish()
    assert await stack.place(SESSIONS) == placed


async def test_a_slot_taken_out_of_the_topology_finishes_its_streams(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    session = next(s for s in SESSIONS if placed[s] == "slot-0")
    live = stack.open_stream(session, model="hold")
    await live.read()

    del stack.document["replicas"][0]
    for pool in stack.document["pools"]:
        pool["slots"] = ["slot-1"]
    await stack.publish()

    assert await stack.place(SESSIONS) == dict.fromkeys(SESSIONS, "slot-1")
    stack.replicas["slot-0"].release.set()
    assert (await finish(live)).code is grpc.StatusCode.OK


async def test_a_change_of_the_balance_factor_leaves_live_streams_alone(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    live = stack.open_stream(SESSIONS[0], model="hold")
    await live.read()

    stack.document["hash_balance_factor"] = 1.25
    await stack.publish()

    assert await stack.place(SESSIONS) == placed
    stack.replicas[placed[SESSIONS[0]]].release.set()
    assert (await finish(live)).code is grpc.StatusCode.OK


async def test_a_change_of_the_balance_factor_under_traffic_costs_no_error(
    stack: EnvoyStack,
) -> None:
    """Envoy builds the cluster anew for it; the old one serves until the new one is warm."""
    async with typing(stack, SESSIONS) as traffic:
        for factor in (2.0, 1.75, 1.5, 1.25):
            stack.document["hash_balance_factor"] = factor
            await stack.publish()
            before = len(traffic.answers)
            await until(lambda: len(traffic.answers) > before + 50, "traffic flows")  # noqa: B023 - awaited in its own turn
    assert traffic.errors == []
