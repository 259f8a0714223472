"""The whole stack as it ships: real Envoy, real Triton, the reference engine, the orchestrator.

Faults are injected into running processes; the seed is in each test and nothing is timed.
"""

import asyncio
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from orchestrator.generation.inference import InferenceError, InferenceRequest, StopRule
from orchestrator.generation.triton import TritonClient
from scripts.benches.editing import EditingSession, editing_sessions
from scripts.benches.http_client import HttpAnswer, HttpConnection
from scripts.benches.paths import COMPLETIONS, DEADLINE_MS, WIDE_LIMITS, Composer, salt_of
from scripts.benches.processes import is_quiet, load_of, until
from scripts.stack.api import RunningStack, running_stack

pytestmark = pytest.mark.component

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    with running_stack(workers=2, cache_mib=256, worker_limits=WIDE_LIMITS) as running:
        yield running


@pytest.fixture(scope="module")
def composer(stack: RunningStack) -> Composer:
    return Composer(Path(stack.config.engine_dir))


async def ask(stack: RunningStack, session: EditingSession, **changes: object) -> HttpAnswer:
    connection = await HttpConnection.open("127.0.0.1", stack.config.edge_port)
    body = json.loads(session.body(mode="line", max_tokens=24, deadline_ms=DEADLINE_MS))
    answer = await connection.post(COMPLETIONS, json.dumps(body | changes).encode())
    connection.reset()
    return answer


async def served_by(client: TritonClient, composer: Composer, session: EditingSession) -> str:
    """The slot that serves the session now, to the end of a stream; raises InferenceError."""
    salt = salt_of(session)
    request = InferenceRequest(
        pool="fast",
        session_key=salt.hex(),
        token_ids=composer.prompt(session),
        cache_salt=salt,
        max_tokens=8,
        stop_rule=StopRule.NONE,
        streaming=True,
        remaining_ms=DEADLINE_MS,
    )
    report = None
    async with client.open(request) as stream:
        async for group in stream:
            report = group.report
    assert report is not None
    return stream.replica


def cancelled_in_engines(stack: RunningStack) -> int:
    return sum(load_of(replica.status_url)["cancelled_total"] for replica in stack.replicas)


async def test_a_line_and_a_block_are_answered_with_what_api_and_engine_say(
    stack: RunningStack,
) -> None:
    session = next(editing_sessions(1))
    for mode in ("line", "block"):
        answer = await ask(stack, session, mode=mode)
        content = answer.json()
        assert answer.status == 200
        assert content["outcome"] in {"shown_candidate", "empty", "filtered"}
        assert content["mode"] == mode
        assert content["model"].startswith("fim-")
        assert content["usage"]["prompt_tokens"] > 900
        assert content["timings_ms"]["total"] > 0
        assert {"x-request-id", "x-policy-version", "x-debounce-hint-ms"} <= set(answer.headers)


async def test_the_next_keystroke_finds_its_prefix_and_another_installation_does_not(
    stack: RunningStack,
) -> None:
    session = next(editing_sessions(2))
    await ask(stack, session)
    session.type(1)
    warm = (await ask(stack, session)).json()["usage"]
    session.installation_id = "another installation"
    stranger = (await ask(stack, session)).json()["usage"]
    assert warm["cached_tokens"] > 0.9 * warm["prompt_tokens"]
    assert stranger["cached_tokens"] == 0


async def test_a_streamed_answer_says_what_the_plain_one_says(stack: RunningStack) -> None:
    session = next(editing_sessions(3))
    plain = (await ask(stack, session)).json()
    streamed = await ask(stack, session, stream=True)
    lines = [line for line in streamed.body.decode().split("\n\n") if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert "".join(event["text"] for event in events[:-1]) == plain["suggestion"]
    assert events[-1]["outcome"] == plain["outcome"]


async def test_a_reset_at_the_edge_stops_the_sequence_in_the_engine(stack: RunningStack) -> None:
    before = cancelled_in_engines(stack)
    sessions = editing_sessions(4)
    for _ in range(12):  # One that was done before its reset cancels nothing.
        connection = await HttpConnection.open("127.0.0.1", stack.config.edge_port)
        body = next(sessions).body(mode="block", max_tokens=256, deadline_ms=DEADLINE_MS)
        connection.send(COMPLETIONS, body)
        assert await until(lambda: not is_quiet(stack), LIMIT_S)
        connection.reset()
        assert await until(lambda: is_quiet(stack), LIMIT_S)
        if cancelled_in_engines(stack) > before:
            return
    pytest.fail("no reset of 12 reached a live sequence")


async def test_nonsense_is_refused_with_the_field_and_the_limit(stack: RunningStack) -> None:
    session = next(editing_sessions(5))
    answer = await ask(stack, session, max_tokens=100_000)
    assert answer.status == 400
    assert answer.json()["error"]["field"] == "max_tokens"
    assert "4096" in answer.json()["error"]["message"]


async def test_a_killed_replica_moves_its_own_sessions_and_no_others(
    stack: RunningStack, composer: Composer
) -> None:
    """Runs last: the stack is whole again at its end, but its caches are not."""
    client = TritonClient(stack.inference_address)
    sessions = list(islice(editing_sessions(6), 16))
    home = {s.document_id: await served_by(client, composer, s) for s in sessions}
    assert set(home.values()) == {"slot-0", "slot-1"}, "16 sessions fell on one replica"

    victim = stack.replicas[0]
    stack.kill(victim.name)
    served: dict[str, set[str]] = {}

    async def type_on(session: EditingSession) -> None:
        for _ in range(12):
            session.type(1)
            try:
                slot = await served_by(client, composer, session)
            except InferenceError:
                # Only what was on the dead replica may be lost, and only until Envoy knows.
                assert home[session.document_id] == victim.slot
                continue
            if home[session.document_id] != victim.slot:
                assert slot == home[session.document_id]
            else:
                served.setdefault(session.document_id, set()).add(slot)

    await asyncio.gather(*(type_on(session) for session in sessions))
    affected = {d for d, slot in home.items() if slot == victim.slot}
    assert served.keys() == affected
    assert all("slot-1" in slots for slots in served.values())
    stack.wait_ready()
    await client.close()
