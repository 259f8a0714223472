"""Drain and undrain through the control plane's API, under streams, refusals and its own death."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from tests.component.envoy.harness import EnvoyStack, finish, until
from tests.component.envoy.traffic import TYPISTS, typing

pytestmark = pytest.mark.component

SESSIONS = [f"session-{i}" for i in range(40)]


async def known(stack: EnvoyStack) -> None:
    """The control plane has heard of every replica since its start."""

    async def is_known() -> bool:
        slots = (await stack.status())["slots"]
        return all(slot["warm_sessions"] is not None for slot in slots)

    await until(is_known, "the replicas' loads are known")


def is_in_state(stack: EnvoyStack, slot: str, state: str) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        return bool((await stack.slot(slot))["state"] == state)

    return reached


async def hold(stack: EnvoyStack, session: str) -> Any:
    """A stream that stays open at its replica until `release`."""
    call = stack.open_stream(session, model="hold", timeout_s=30)
    await call.read()
    return call


async def test_a_drain_under_traffic_moves_new_streams_and_finishes_old_ones_without_an_error(
    stack: EnvoyStack,
) -> None:
    placed = await stack.place(SESSIONS)
    await known(stack)
    mine = [s for s in SESSIONS if placed[s] == "slot-0"]
    live = [await hold(stack, session) for session in mine[:3]]

    async with typing(stack, SESSIONS) as traffic:
        await until(lambda: len(traffic.answers) > 50, "traffic flows")
        assert (await stack.change("slot-0", "drain")).json()["state"] == "draining"
        await stack.wait_until_accepted()
        before = len(traffic.answers)
        await until(lambda: len(traffic.answers) > before + 2 * TYPISTS + 50, "it goes on")
        assert stack.replicas["slot-0"].open_streams == len(live)
        assert (await stack.slot("slot-0"))["state"] == "draining"
        stack.replicas["slot-0"].release.set()
        await until(is_in_state(stack, "slot-0", "drained"), "the drain ends")

    assert traffic.errors == []
    # A typist may have had one stream under way while Envoy took the change.
    after = [answer.slot for answer in traffic.answers[before + TYPISTS :]]
    assert set(after) == {"slot-1"}
    answers = [await finish(call) for call in live]
    assert {(answer.code, answer.label) for answer in answers} == {(grpc.StatusCode.OK, "slot-0")}
    assert (await stack.slot("slot-0"))["drain"]["ended_by"] == "finish"


async def test_a_refused_drain_moves_nothing_and_a_forced_one_does(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    stack.replicas["slot-0"].warm_sessions = 30
    stack.replicas["slot-1"].warm_sessions = 10
    await known(stack)

    async def is_counted() -> bool:
        return bool((await stack.slot("slot-0"))["warm_sessions"] == 30)

    await until(is_counted, "the warm sessions are known")
    refused = await stack.change("slot-0", "drain")
    assert refused.status_code == 409
    assert "may move 10 warm sessions" in refused.json()["error"]["message"]
    assert await stack.place(SESSIONS) == placed

    forced = await stack.change("slot-0", "drain", force=True)
    assert forced.json()["state"] == "draining"
    await stack.wait_until_accepted()
    assert await stack.place(SESSIONS) == dict.fromkeys(SESSIONS, "slot-1")
    last = await stack.change("slot-1", "drain")
    assert last.json()["error"]["reason"] == "floor"


async def test_a_replica_whose_load_is_unknown_is_drained_by_force_only(stack: EnvoyStack) -> None:
    stack.replicas["slot-0"].warm_sessions = None
    await until(lambda: is_ready_without_load(stack, "slot-0"), "its load is unknown")
    refused = await stack.change("slot-0", "drain")
    assert refused.json()["error"]["reason"] == "load_unknown"
    assert (await stack.change("slot-0", "drain", force=True)).status_code == 200


async def is_ready_without_load(stack: EnvoyStack, slot: str) -> bool:
    seen = await stack.slot(slot)
    return bool(seen["ready"] and seen["live_sequences"] is None)


async def test_a_deadline_ends_a_drain_that_streams_would_not_let_end(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    await known(stack)
    live = await hold(stack, next(s for s in SESSIONS if placed[s] == "slot-0"))
    await stack.change("slot-0", "drain", deadline_s=2)
    await until(is_in_state(stack, "slot-0", "drained"), "the deadline passes")
    drain = (await stack.slot("slot-0"))["drain"]
    assert (drain["ended_by"], drain["sequences_left"]) == ("deadline", 1)
    stack.replicas["slot-0"].release.set()
    assert (await finish(live)).code is grpc.StatusCode.OK, "whoever stops it ends its streams"


async def test_an_undrained_slot_gets_its_own_sessions_back_step_by_step(stack: EnvoyStack) -> None:
    sessions = [f"session-{i}" for i in range(200)]
    stack.document["ramp"] = {"duration_s": 8.0, "steps": 4, "start_percent": 10}
    stack.write()
    placed = await stack.place(sessions)
    mine = {session for session in sessions if placed[session] == "slot-0"}
    await known(stack)
    await stack.change("slot-0", "drain", deadline_s=0)
    await until(is_in_state(stack, "slot-0", "drained"), "the drain ends")

    await stack.change("slot-0", "undrain")
    shares: dict[int, set[str]] = {}
    async with asyncio.timeout(30):
        while not shares or max(shares) < 100:
            weight = (await stack.slot("slot-0"))["weight"]
            now = await stack.place(sessions)
            if (await stack.slot("slot-0"))["weight"] == weight:
                shares[weight] = {session for session in sessions if now[session] == "slot-0"}
    assert sorted(shares) == [10, 32, 55, 77, 100]
    assert shares[100] == mine
    held = [shares[weight] for weight in sorted(shares)]
    sizes = [len(each) for each in held]
    assert sizes == sorted(sizes)
    assert sizes[0] < len(mine) / 3
    # Almost none leaves again: each weight's sessions are among the next one's.
    left = sum(len(before - after) for before, after in itertools.pairwise(held))
    assert left <= len(sessions) // 50


async def test_a_control_plane_killed_in_mid_drain_goes_on_with_it(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    await known(stack)
    live = await hold(stack, next(s for s in SESSIONS if placed[s] == "slot-0"))
    await stack.change("slot-0", "drain")
    stack.stop_control_plane(kill=True)
    everywhere_else = dict.fromkeys(SESSIONS, "slot-1")

    async with typing(stack, SESSIONS) as traffic:
        stack.start_control_plane()
        await stack.wait_until_accepted()
        assert await stack.place(SESSIONS) == everywhere_else
        assert (await stack.slot("slot-0"))["state"] == "draining"
        stack.replicas["slot-0"].release.set()
        await until(is_in_state(stack, "slot-0", "drained"), "the drain ends")
        stack.stop_control_plane(kill=True)
        stack.start_control_plane()
        await stack.wait_until_accepted()
    assert (await stack.slot("slot-0"))["state"] == "drained"
    assert await stack.place(SESSIONS) == everywhere_else
    assert traffic.errors == []
    assert (await finish(live)).code is grpc.StatusCode.OK


async def test_a_damaged_state_file_undrains_nothing(stack: EnvoyStack) -> None:
    await known(stack)
    await stack.change("slot-0", "drain", force=True)
    await until(is_in_state(stack, "slot-0", "drained"), "the drain ends")
    stack.stop_control_plane()
    stack.topology_file.with_suffix(".state.json").write_text("{")
    stack.start_control_plane()
    await stack.wait_until_accepted()
    assert ".previous is in force" in (stack.folder / "control_plane.log").read_text()
    assert (await stack.slot("slot-0"))["state"] in {"draining", "drained"}
    assert set((await stack.place(SESSIONS)).values()) == {"slot-1"}
