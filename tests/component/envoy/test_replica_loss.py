"""What a dead, failing or replaced replica costs: its own sessions a move, the others nothing."""

import asyncio

import grpc
import pytest

from tests.component.envoy.fakes import ResettingServer
from tests.component.envoy.harness import Answer, EnvoyStack, finish, replica_entry, until

pytestmark = pytest.mark.component

SESSIONS = [f"session-{i}" for i in range(40)]
# One request at a time: one meets the closing connection, one the refused connect that takes the
# replica out. About 20 sessions are affected, so this tells the two apart.
FAILED_MAX = 2


async def test_a_dead_replicas_sessions_move_and_no_other_is_touched(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    untouched = [s for s in SESSIONS if placed[s] == "slot-1"]
    affected = [s for s in SESSIONS if placed[s] == "slot-0"]
    await stack.replicas["slot-0"].die()

    answers = {session: await stack.infer(session) for session in [*affected, *untouched]}

    assert [answers[s].slot for s in untouched] == ["slot-1"] * len(untouched)
    failed = [s for s in affected if answers[s].code is not grpc.StatusCode.OK]
    assert len(failed) <= FAILED_MAX
    assert {answers[s].slot for s in affected if s not in failed} <= {"slot-1"}
    assert await stack.place(affected) == dict.fromkeys(affected, "slot-1")


async def test_a_replica_that_reports_not_ready_loses_its_sessions_until_it_is(
    stack: EnvoyStack,
) -> None:
    placed = await stack.place(SESSIONS)
    stack.replicas["slot-0"].status = 503
    everywhere_else = dict.fromkeys(SESSIONS, "slot-1")
    await until(lambda: places(stack, everywhere_else), "all sessions move")
    stack.replicas["slot-0"].status = 200
    await until(lambda: places(stack, placed), "they return")


async def test_a_death_right_after_another_change_of_health_counts_as_fast(
    stack: EnvoyStack,
) -> None:
    """By default Envoy would hold the second change of a second back."""
    placed = await stack.place(SESSIONS)
    stack.replicas["slot-1"].status = 503
    await until(lambda: places(stack, dict.fromkeys(SESSIONS, "slot-0")), "all sessions move")
    stack.replicas["slot-1"].status = 200
    await until(lambda: places(stack, placed), "they return")
    await stack.replicas["slot-0"].die()
    answers = [await stack.infer(session) for session in SESSIONS]
    assert sum(answer.code is not grpc.StatusCode.OK for answer in answers) <= FAILED_MAX


async def test_with_no_replica_left_a_request_fails_at_once(stack: EnvoyStack) -> None:
    for replica in stack.replicas.values():
        replica.status = 503

    async def refused() -> bool:
        return (await stack.refusal("session-a")).code is grpc.StatusCode.UNAVAILABLE

    await until(refused, "Envoy refuses")
    assert await stack.refusal("session-a") == Answer(
        grpc.StatusCode.UNAVAILABLE, "no healthy upstream"
    )


async def test_a_replica_replaced_in_its_slot_keeps_its_sessions(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    successor = await stack.add_replica("successor")
    stack.document["replicas"][0] = replica_entry("slot-0", successor)
    await stack.publish()
    await until(lambda: places(stack, placed), "the successor is healthy")
    answer = await stack.infer(next(s for s in SESSIONS if placed[s] == "slot-0"))
    assert (answer.slot, answer.label) == ("slot-0", "successor")


async def test_an_added_slot_takes_sessions_only_for_itself(stack: EnvoyStack) -> None:
    sessions = [f"session-{i}" for i in range(300)]
    before = await stack.place(sessions)
    newcomer = await stack.add_replica("slot-2")
    stack.document["replicas"].append(replica_entry("slot-2", newcomer))
    stack.document["pools"][0]["slots"] = ["slot-0", "slot-1", "slot-2"]
    await stack.publish()

    async def takes_part() -> bool:
        return "slot-2" in (await stack.place(SESSIONS)).values()

    await until(takes_part, "the added slot serves")
    after = await stack.place(sessions)
    moved_for_nothing = [s for s in sessions if after[s] not in {before[s], "slot-2"}]
    # Measured: Maglev hashing 0.07 %, ring hash 11 %; see control_plane.placement.
    assert len(moved_for_nothing) <= len(sessions) // 50


async def test_a_slot_of_little_weight_takes_few_sessions(stack: EnvoyStack) -> None:
    sessions = [f"session-{i}" for i in range(200)]
    stack.document["replicas"][0]["weight"] = 10
    await stack.publish()
    slots = list((await stack.place(sessions)).values())
    # 10 of 110 parts are 18 of 200 sessions; 4 standard deviations are 16.
    assert 2 <= slots.count("slot-0") <= 34


async def test_an_error_answer_does_not_take_a_replica_out(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    for session in SESSIONS:
        answer = await stack.infer(session, model="abort")
        assert answer.code is grpc.StatusCode.INTERNAL
    assert await stack.place(SESSIONS) == placed


async def test_a_replica_that_resets_its_streams_is_taken_out_by_the_first(
    stack: EnvoyStack,
) -> None:
    placed = await stack.place(SESSIONS)
    broken = ResettingServer()
    await broken.start()
    stack.document["replicas"][0]["port"] = broken.port
    await stack.publish()

    async def was_asked() -> bool:
        await stack.place([s for s in SESSIONS if placed[s] == "slot-1"])
        await stack.infer(next(s for s in SESSIONS if placed[s] == "slot-0"))
        return broken.resets > 0

    await until(was_asked, "the broken replica gets a stream")
    answers = [await stack.infer(session) for session in SESSIONS]
    # Its health check still passes and brings it back now and then, for one stream each time.
    assert sum(answer.code is not grpc.StatusCode.OK for answer in answers) <= 2
    await broken.stop()


async def test_a_deadline_ends_the_stream_and_costs_the_replica_nothing(
    stack: EnvoyStack,
) -> None:
    placed = await stack.place(SESSIONS)
    answer = await stack.infer(SESSIONS[0], model="hold", timeout_s=0.2)
    replica = stack.replicas[placed[SESSIONS[0]]]
    assert answer.code is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: replica.cancelled == 1, "the replica sees the reset")
    assert replica.deadline_s is None, "the caller alone keeps its deadline"
    assert await stack.place(SESSIONS) == placed


async def test_a_reset_by_the_caller_resets_the_stream_to_the_replica(stack: EnvoyStack) -> None:
    placed = await stack.place(SESSIONS)
    call = stack.open_stream(SESSIONS[0], model="hold")
    await call.read()
    replica = stack.replicas[placed[SESSIONS[0]]]
    assert replica.open_streams == 1
    call.cancel()
    await until(lambda: replica.open_streams == 0 and replica.cancelled == 1, "it is reset")
    assert await stack.place(SESSIONS) == placed


async def test_bounded_load_spills_a_hot_session_and_counts_its_streams(
    stack: EnvoyStack,
) -> None:
    stack.document["hash_balance_factor"] = 1.0
    await stack.publish()
    calls = []
    for _ in range(10):
        calls.append(stack.open_stream("hot", model="hold"))
        await calls[
            -1
        ].read()  # one by one: a stream that still waits for a connection is not counted
    # Envoy spills where a host's live streams are more than ceil((all + 1) * factor * share), so
    # with equal shares the k-th stream stays while the hot host has at most ceil(k / 2).
    assert sorted(r.open_streams for r in stack.replicas.values()) == [4, 6]
    for replica in stack.replicas.values():
        replica.release.set()
    answers = await asyncio.gather(*(finish(call) for call in calls))
    assert all(answer.code is grpc.StatusCode.OK for answer in answers)


async def places(stack: EnvoyStack, expected: dict[str, str]) -> bool:
    answers = [await stack.infer(session) for session in expected]
    return [answer.slot for answer in answers] == list(expected.values())
