"""The request's way on the fake engine: every end is one answer and one record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.admission import Permits
from orchestrator.clock import ManualClock
from orchestrator.generation.fake import FakeInferenceClient, Step, answer_with
from orchestrator.generation.inference import (
    EngineFailureError,
    EngineReport,
    FinishReason,
    InferenceRequest,
    ReplicaUnavailableError,
    RequestRejectedError,
    StopRule,
    TokenGroup,
)
from orchestrator.outcome import Outcome
from orchestrator.policy import PolicyDocument
from orchestrator.pools import Pools
from orchestrator.postprocess import Chain, Context, FilterVerdict
from orchestrator.prompt.engine import PromptEngine
from orchestrator.prompt.engine_manifest import EngineFolderError
from orchestrator.record.recorder import Answer
from orchestrator.record.sinks import MemorySink
from orchestrator.request import CompletionRequest, Mode, RequestedMode
from tests.support.orchestrator import pipeline, request, tokenizer

SECRET_TEXT = "quotes_the_source_code"


def says(text: str) -> FakeInferenceClient:
    return FakeInferenceClient(answer_with(list(tokenizer().encode(text))))


def fails(error: type[Exception]) -> FakeInferenceClient:
    return FakeInferenceClient(lambda _: (Step(0.0, error=error),))


async def complete(
    client: FakeInferenceClient, asked: CompletionRequest | None = None, **parts: object
) -> tuple[Answer, MemorySink]:
    sink = MemorySink()
    answer = await pipeline(client, sink, **parts).complete(asked or request())  # type: ignore[arg-type]
    assert [answer.record] == sink.records
    assert client.live == 0
    return answer, sink


async def test_a_line_comes_back_with_what_it_took() -> None:
    client = says("a + b")
    answer, _ = await complete(client)
    assert (answer.suggestion, answer.record.outcome) == ("a + b", Outcome.SHOWN_CANDIDATE)
    assert answer.record.usage.completion_tokens == len(tokenizer().encode("a + b"))
    assert answer.record.usage.cached_tokens == answer.record.usage.prompt_tokens
    sent = client.requests[0]
    assert (sent.pool, sent.stop_rule, sent.streaming) == ("fast", StopRule.NEWLINE, False)
    assert sent.remaining_ms == 800
    assert sent.max_tokens == 64


async def test_a_block_is_streamed_and_stopped_here_which_cancels_it() -> None:
    ids = list(tokenizer().encode("return a\n\nx = 1\ny = 2\n"))

    def script(_: InferenceRequest) -> Sequence[Step]:
        return [Step(0.0, TokenGroup(tuple(ids[at : at + 2]))) for at in range(0, len(ids), 2)]

    client = FakeInferenceClient(script)
    asked = request("def f(a):\n    ", mode=RequestedMode.BLOCK, language="python")
    answer, _ = await complete(client, asked)
    assert answer.suggestion == "return a"
    assert client.cancelled == 1
    assert (client.requests[0].pool, client.requests[0].streaming) == ("large", True)
    assert answer.record.usage.cached_tokens is None
    assert answer.record.usage.completion_tokens < len(ids)


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [("", Outcome.EMPTY, None), ("  \n", Outcome.FILTERED, "whitespace_only")],
)
async def test_nothing_and_nothing_worth_showing_are_told_apart(
    text: str, outcome: Outcome, reason: str | None
) -> None:
    answer, _ = await complete(says(text))
    assert (answer.suggestion, answer.record.outcome, answer.record.reason) == ("", outcome, reason)


@pytest.mark.parametrize(
    "error", [EngineFailureError, ReplicaUnavailableError, RequestRejectedError]
)
async def test_an_engine_failure_is_an_empty_answer_and_a_failed_record(
    error: type[Exception],
) -> None:
    answer, _ = await complete(fails(error))
    assert (answer.suggestion, answer.record.outcome) == ("", Outcome.FAILED)
    assert answer.record.error_type == error.__name__


async def test_a_bug_in_a_rule_fails_that_request_and_says_nothing_of_the_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(text: str, context: Context) -> FilterVerdict:
        raise RuntimeError(text)

    with caplog.at_level(logging.DEBUG):
        answer, _ = await complete(says(SECRET_TEXT), chain=Chain((broken,)))
    assert answer.record.outcome is Outcome.FAILED
    assert answer.record.error_type == "RuntimeError"
    assert "test_pipeline.py" in caplog.text
    assert SECRET_TEXT not in caplog.text


async def test_an_engine_that_ran_into_the_deadline_is_expired_and_not_failed() -> None:
    report = EngineReport(FinishReason.DEADLINE, 0, 0, 0, 0)
    answer, _ = await complete(FakeInferenceClient(lambda _: (Step(0, TokenGroup((), report)),)))
    assert (answer.suggestion, answer.record.outcome) == ("", Outcome.EXPIRED)


async def test_a_stream_that_just_ends_is_a_failure() -> None:
    answer, _ = await complete(FakeInferenceClient(lambda _: ()))
    assert answer.record.outcome is Outcome.FAILED


async def test_nothing_is_shown_after_the_deadline() -> None:
    clock = ManualClock()

    def slow(text: str, context: Context) -> FilterVerdict:
        clock.advance(801)
        return Chain().run(text, context)

    answer, _ = await complete(says("late"), clock=clock, chain=Chain((slow,)))
    assert (answer.suggestion, answer.record.outcome) == ("", Outcome.EXPIRED)


async def test_a_request_that_waited_too_long_at_the_edge_costs_no_engine_time() -> None:
    client = says("a")
    answer, _ = await complete(client, request(received_ms=-900.0))
    assert (answer.record.outcome, answer.record.reason) == (Outcome.REFUSED, "deadline")
    assert client.requests == []


async def test_a_full_worker_refuses_at_once() -> None:
    client = says("a")
    answer, _ = await complete(client, permits=Permits(0, 8))
    assert (answer.record.outcome, answer.record.reason) == (Outcome.REFUSED, "no_capacity")
    assert client.requests == []


async def test_a_worker_without_an_engine_refuses_and_goes_on() -> None:
    def absent(folder: Path) -> PromptEngine:
        raise EngineFolderError("absent")

    pools = Pools({"fast": Path("absent")}, absent)
    pools.load_missing()
    answer, _ = await complete(says("a"), pools=pools)
    assert (answer.record.outcome, answer.record.reason) == (Outcome.REFUSED, "no_capacity")


async def test_a_tenant_without_blocks_is_served_lines_and_told_its_policy() -> None:
    policy = PolicyDocument(policy_version=42, block_completions=False, debounce_hint_ms=200)
    answer, _ = await complete(says("a"), request(mode=RequestedMode.BLOCK), policy=policy)
    assert answer.record.mode is Mode.LINE
    assert (answer.record.policy_version, answer.debounce_hint_ms) == (42, 200)


async def test_a_cancel_reaches_the_engine_and_is_recorded() -> None:
    sink, permits = MemorySink(), Permits(8, 8)
    client = FakeInferenceClient(answer_with([300], delay_ms=600_000))
    served = asyncio.create_task(pipeline(client, sink, permits=permits).complete(request()))
    await client.entered.wait()
    assert permits.load("fast").worker_in_flight == 1
    served.cancel()
    with pytest.raises(asyncio.CancelledError):
        await served
    assert [record.outcome for record in sink.records] == [Outcome.CANCELLED]
    assert (client.live, client.cancelled) == (0, 1)
    assert permits.load("fast").worker_in_flight == 0


async def test_equal_requests_of_two_users_share_neither_session_nor_salt() -> None:
    client, sink = says("a"), MemorySink()
    served = pipeline(client, sink)
    other = request().principal.__class__("development", "other", *_tier_and_role())
    await served.complete(request())
    await served.complete(request(principal=other))
    one, two = client.requests
    assert one.token_ids == two.token_ids
    assert one.cache_salt != two.cache_salt
    assert one.session_key != two.session_key


def _tier_and_role() -> tuple[object, object]:
    principal = request().principal
    return principal.tier, principal.role
