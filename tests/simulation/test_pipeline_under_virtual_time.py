"""Thousands of seeded schedules of the real pipeline against a simulated engine.

Only the engine and the clock are simulated; policy, routing, admission, composition, stop rules,
post-processing and records are the real ones. Time is the event loop's and virtual, so a schedule
of seconds takes milliseconds. A failing seed is in the assertion's message:
`run_schedule(seed)` repeats it exactly.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import looptime
import pytest

from orchestrator.admission import Permits
from orchestrator.affinity import Affinity, LossReason, Placement
from orchestrator.generation.fake import FakeInferenceClient, Step
from orchestrator.generation.inference import (
    EngineFailureError,
    EngineReport,
    FinishReason,
    InferenceError,
    InferenceRequest,
    ReplicaUnavailableError,
    TokenGroup,
)
from orchestrator.load.fleet import Refused
from orchestrator.outcome import Outcome
from orchestrator.pipeline import Pipeline
from orchestrator.record.recorder import Answer
from orchestrator.record.request_record import RequestRecord
from orchestrator.record.sinks import MemorySink
from orchestrator.request import CompletionRequest, EditingSession, RequestedMode
from tests.support.orchestrator import affinity_of, load_report, pipeline, request, tokenizer

SEEDS = 2_000
BATCHES = 20
REQUESTS = 14
WORKER_LIMIT, POOL_LIMIT = 4, 3
SLOTS = ("slot-0", "slot-1", "slot-2")
SESSIONS_REMEMBERED = 3  # Fewer than there are, so that some are forgotten.
LIMIT_MS = {RequestedMode.LINE: 800, RequestedMode.BLOCK: 2000}

TEXTS = ("a + b", "", "  ", "return a\n\nx = 1\n", "f(1, 2)\n    y = é€😀\n", "}" * 9, "if a:\n  b")
PREFIXES = ("x = ", "def f(a):\n    ", "if (a) {\n  ", "")
ERRORS = (EngineFailureError, ReplicaUnavailableError)


class LoopClock:
    """The virtual time of the event loop, as the pipeline's clock."""

    def now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def epoch_ms(self) -> int:
        return int(self.now_ms())


@dataclass
class Ended:
    """What one caller saw, and when."""

    asked: CompletionRequest
    answer: Answer | None
    at_ms: float


@dataclass
class Run:
    """Everything that a schedule left behind."""

    ended: list[Ended] = field(default_factory=list)
    sink: MemorySink = field(default_factory=MemorySink)
    permits: Permits = field(default_factory=lambda: Permits(WORKER_LIMIT, POOL_LIMIT))
    affinity: Affinity = field(
        default_factory=lambda: affinity_of(*SLOTS, entries_max=SESSIONS_REMEMBERED)
    )
    remembered_max: int = 0
    client: FakeInferenceClient | None = None


def cut(ids: Sequence[int], rng: random.Random) -> list[tuple[int, ...]]:
    """Token groups of 1 to 8, as a replica might send them."""
    groups, at = [], 0
    while at < len(ids):
        size = rng.randint(1, 8)
        groups.append(tuple(ids[at : at + size]))
        at += size
    return groups


def engine_script(rng: random.Random) -> object:
    """An engine that is quick, slow or stuck, that fails, breaks off, or gives up by itself."""

    def script(asked: InferenceRequest) -> Sequence[Step]:
        ids = list(tokenizer().encode(rng.choice(TEXTS)))[: asked.max_tokens]
        groups = cut(ids, rng) if asked.streaming else [tuple(ids)]
        pace_ms = rng.choice((0.0, 1.0, 20.0, 400.0))
        steps = [Step(pace_ms, TokenGroup(group)) for group in groups]
        fate = rng.random()
        if fate < 0.1:
            error: type[InferenceError] = rng.choice(ERRORS)
            return [*steps[: rng.randint(0, len(steps))], Step(pace_ms, error=error)]
        if fate < 0.15:
            return steps
        reason = FinishReason.DEADLINE if fate < 0.2 else FinishReason.END_ID
        report = EngineReport(reason, 0, 100, 200, 300)
        return [*steps, Step(pace_ms, TokenGroup((), report))]

    return script


def ask(number: int, rng: random.Random, now_ms: float) -> CompletionRequest:
    waited_ms = rng.choice((0, 0, 0, 5, 300, 900))
    return request(
        rng.choice(PREFIXES),
        rng.choice(("", "\n", ")\n")),
        completion_id=f"c-{number}",
        session=EditingSession("i", str(rng.randint(0, 3))),
        mode=rng.choice((RequestedMode.LINE, RequestedMode.BLOCK)),
        language=rng.choice(("python", "go")),
        client_deadline_ms=rng.choice((None, None, 1, 50, 600, 60_000)),
        received_ms=now_ms - waited_ms,
        arrived_ms=now_ms,
    )


async def one_caller(
    number: int, served: Pipeline, run: Run, rng: random.Random, clock: LoopClock
) -> None:
    await asyncio.sleep(rng.choice((0.0, rng.uniform(0, 2), 0.5)))
    asked = ask(number, rng, clock.now_ms())
    work = asyncio.create_task(served.complete(asked))
    if rng.random() < 0.55:  # More than half of what editors ask for is cancelled by the next key.
        delay_s = rng.choice((0.0, 0.001, rng.uniform(0, 2.5)))
        asyncio.get_running_loop().call_later(delay_s, work.cancel)
    answer = None
    try:
        answer = await work
    except asyncio.CancelledError:
        assert work.cancelled()
    run.ended.append(Ended(asked, answer, clock.now_ms()))


async def read_the_fleet(run: Run, rng: random.Random, clock: LoopClock) -> None:
    """What the poller does, with replicas that come and go; looks at the table's size as well."""
    while True:
        await asyncio.sleep(rng.uniform(0.05, 0.5))
        now_ms, slot = clock.now_ms(), rng.choice(SLOTS)
        heard = load_report() if rng.random() < 0.8 else Refused("status 503")
        run.affinity.saw(run.affinity.fleet.heard(slot, heard, now_ms, now_ms), now_ms)
        run.remembered_max = max(run.remembered_max, len(run.affinity))


async def _schedule(seed: int) -> Run:
    rng, run, clock = random.Random(seed), Run(), LoopClock()
    punctual = rng.random() < 0.7
    places = random.Random(seed + 1)
    run.client = FakeInferenceClient(
        engine_script(rng),  # type: ignore[arg-type]
        punctual=punctual,
        place=lambda _: places.choice(SLOTS),
    )
    served = pipeline(run.client, run.sink, clock, permits=run.permits, affinity=run.affinity)
    reading = asyncio.create_task(read_the_fleet(run, places, clock))
    callers = [one_caller(number, served, run, rng, clock) for number in range(REQUESTS)]
    await asyncio.gather(*callers)
    reading.cancel()
    run.affinity.close(clock.now_ms())
    return run


def run_schedule(seed: int) -> Run:
    """One schedule on a virtual-time loop of its own."""
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=1)) as runner:
        return runner.run(_schedule(seed))


def held(run: Run) -> None:
    """The invariants of a schedule; raises AssertionError naming the one that broke."""
    records = {record.completion_id: record for record in run.sink.records}
    assert len(run.sink.records) == len(run.ended) == REQUESTS, "exactly one record per request"
    assert records.keys() == {f"c-{number}" for number in range(REQUESTS)}, "no record twice"
    assert run.client is not None
    assert run.client.live == 0, "no sequence outlives its request"
    assert run.client.live_max <= WORKER_LIMIT, "in flight never passes the limit"
    for pool in ("fast", "large"):
        load = run.permits.load(pool)
        assert (load.worker_in_flight, load.pool_in_flight) == (0, 0), "in flight returns to zero"
    spent = [r for r in run.sink.records if r.outcome is not Outcome.REFUSED]
    assert len(run.client.requests) <= len(spent), "refused requests cost no engine time"
    assert run.remembered_max <= SESSIONS_REMEMBERED, "the table never passes its bound"
    assert run.affinity.waiting == 0, "no record waits for ever"
    for record in run.sink.records:
        _held_for_a_placement(record)
    for ended in run.ended:
        record = records[ended.asked.completion_id]
        _held_for_one(ended, record.outcome)


def _held_for_a_placement(record: RequestRecord) -> None:
    assert (record.placement is not None) == bool(record.replica), "served, placed: once"
    kept = record.placement in (None, Placement.WARM, Placement.FIRST)
    assert (record.affinity_loss is None) == kept, "every loss has its reason and nothing else has"
    answered = (Outcome.SHOWN_CANDIDATE, Outcome.EMPTY, Outcome.FILTERED)
    assert record.placement is not None or record.outcome not in answered, "an answer is placed"


def _held_for_one(ended: Ended, outcome: Outcome) -> None:
    answer = ended.answer
    if answer is None:
        assert outcome is Outcome.CANCELLED, "a cancelled request is recorded as that"
        return
    assert outcome is not Outcome.CANCELLED, "an answered request is not recorded as cancelled"
    assert bool(answer.suggestion) == (outcome is Outcome.SHOWN_CANDIDATE), "text means shown"
    limit_ms = min(ended.asked.client_deadline_ms or 60_000, LIMIT_MS[ended.asked.mode])
    deadline_ms = ended.asked.received_ms + limit_ms
    if answer.suggestion:
        assert ended.at_ms < deadline_ms, "no text after the deadline"
        assert "\ufffd" not in answer.suggestion, "no half of a character is shown"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_seeded_schedule_holds_the_invariants(batch: int) -> None:
    for seed in range(batch, SEEDS, BATCHES):
        try:
            held(run_schedule(seed))
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken


def test_the_schedules_reach_every_kind_of_end() -> None:
    """Otherwise the invariants above would hold of nothing."""
    outcomes = {
        (record.outcome, record.reason)
        for seed in range(60)
        for record in run_schedule(seed).sink.records
    }
    assert {outcome for outcome, _ in outcomes} >= {
        Outcome.SHOWN_CANDIDATE, Outcome.EMPTY, Outcome.FILTERED, Outcome.REFUSED,
        Outcome.EXPIRED, Outcome.CANCELLED, Outcome.FAILED,
    }  # fmt: skip
    assert {(Outcome.REFUSED, "deadline"), (Outcome.REFUSED, "no_capacity")} <= outcomes


def test_the_schedules_reach_every_placement() -> None:
    records = [record for seed in range(60) for record in run_schedule(seed).sink.records]
    assert {record.placement for record in records} == {None, *Placement}
    assert {record.affinity_loss for record in records} >= {
        LossReason.SPILLED, LossReason.RETURNED, LossReason.UNAVAILABLE,
        LossReason.PLACEMENT_CHANGED,
    }  # fmt: skip


def test_a_seed_repeats_its_schedule_exactly() -> None:
    def trace(seed: int) -> list[tuple[str, Outcome, float]]:
        run = run_schedule(seed)
        return [(r.completion_id, r.outcome, round(r.times.total, 6)) for r in run.sink.records]

    assert trace(7) == trace(7)
    assert trace(7) != trace(8)


async def _suggestion(text: str, cuts: int, asked: CompletionRequest) -> str:
    rng = random.Random(cuts)
    report = EngineReport(FinishReason.END_ID, 0, 0, 0, 0)

    def script(_: InferenceRequest) -> Sequence[Step]:
        groups = cut(list(tokenizer().encode(text)), rng)
        return [
            *(Step(0.0, TokenGroup(group)) for group in groups),
            Step(0.0, TokenGroup((), report)),
        ]

    answer = await pipeline(FakeInferenceClient(script), MemorySink()).complete(asked)
    return answer.suggestion


@pytest.mark.parametrize("text", TEXTS)
async def test_what_is_shown_does_not_depend_on_how_tokens_were_grouped(text: str) -> None:
    for prefix in PREFIXES:
        asked = request(prefix, ")\n", mode=RequestedMode.BLOCK, language="python")
        assert len({await _suggestion(text, cuts, asked) for cuts in range(25)}) == 1
