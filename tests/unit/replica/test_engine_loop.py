"""The engine loop, turn by turn, on the fake engine and a clock that stands still."""

import gc
import json
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from replica.engine import Engine, SequenceSpec
from replica.engine_host import EngineHost
from replica.engine_loop import EngineLoop, LoopLimits
from replica.errors import EngineFailedError, ReplicaFullError, ReplicaUnavailableError
from replica.fake_engine import FakeEngine, FakePace
from replica.manifest import EngineManifest
from replica.request import GenerationRequest
from replica.stop_rule import FinishReason, StopConditions
from replica.trace import FileTrace, NoTrace, Trace
from tests.unit.replica.conftest import FakeClock, FakeResponder

STEP_US = 1_000


@dataclass
class Bench:
    """A loop whose engine can be told to break, and how many engines were built."""

    loop: EngineLoop
    host: EngineHost
    clock: FakeClock
    engines: list[FakeEngine]
    before_step: list[Callable[[], None]]
    build_errors: list[Exception]

    def submit(self, **changes: object) -> FakeResponder:
        responder = FakeResponder()
        self.loop.submit(request(**changes), responder)
        return responder

    def run(self, turns_max: int = 1_000) -> None:
        for _ in range(turns_max):
            load = self.loop.report()
            if not load.live_sequences and not load.waiting_sequences:
                return
            self.loop.turn()
        pytest.fail("the loop did not come to rest")


def request(
    length: int = 40,
    output: int = 5,
    salt: bytes = b"s" * 16,
    streaming: bool = False,
    deadline_ms: int | None = None,
    **stops: object,
) -> GenerationRequest:
    conditions = StopConditions(output, **stops)  # type: ignore[arg-type]  # the tests' own words
    return GenerationRequest(tuple(range(length)), salt, conditions, streaming, deadline_ms)


def make_bench(
    manifest: EngineManifest, clock: FakeClock, trace: Trace, live: int = 4, waiting: int = 6
) -> Bench:
    engines: list[FakeEngine] = []
    before_step: list[Callable[[], None]] = []
    build_errors: list[Exception] = []

    def build() -> Engine:
        if build_errors:
            raise build_errors.pop()
        pace = FakePace(step_us=STEP_US)
        engine = FakeEngine(manifest, 64, pace, clock.wait)
        engine.before_step = lambda: before_step.pop()() if before_step else None
        engines.append(engine)
        return engine

    host = EngineHost(build, clock)
    host.load()
    loop = EngineLoop(host, LoopLimits(live, waiting), clock, trace)
    return Bench(loop, host, clock, engines, before_step, build_errors)


@pytest.fixture
def bench(manifest: EngineManifest, clock: FakeClock) -> Bench:
    return make_bench(manifest, clock, NoTrace())


def reason(responder: FakeResponder) -> FinishReason:
    assert responder.summary is not None
    return responder.summary.finish_reason


def break_engine() -> None:
    raise RuntimeError("a secret token 4711")


def test_a_line_is_one_response(bench: Bench) -> None:
    responder = bench.submit()
    bench.run()
    assert len(responder.groups) == 1
    assert len(responder.tokens) == 5
    assert reason(responder) is FinishReason.LENGTH


def test_a_stream_sends_the_first_token_at_once_and_then_groups_of_eight(bench: Bench) -> None:
    responder = bench.submit(output=20, streaming=True)
    bench.run()
    assert [len(group) for group in responder.groups] == [1, 8, 8, 3]


def test_a_stream_that_ends_with_a_full_group_sends_it_with_the_summary(bench: Bench) -> None:
    responder = bench.submit(output=9, streaming=True)
    bench.run()
    assert [len(group) for group in responder.groups] == [1, 8]


def test_a_new_sequence_joins_at_the_next_step(bench: Bench) -> None:
    first = bench.submit(output=10)
    bench.loop.turn()
    second = bench.submit(output=10, salt=b"t" * 16)
    steps = 1
    while first.summary is None:
        bench.loop.turn()
        steps += 1
    assert steps == 10
    bench.loop.turn()
    assert second.summary is not None


def test_the_loop_keeps_to_the_live_limit_and_the_order_of_acceptance(bench: Bench) -> None:
    responders = [bench.submit(salt=bytes([i]) * 16) for i in range(6)]
    bench.loop.turn()
    assert bench.loop.report().live_sequences == 4
    assert bench.loop.report().waiting_sequences == 2
    bench.run()
    waits = [r.summary.queue_us for r in responders if r.summary]
    assert waits == sorted(waits)
    assert waits[0] == 0 < waits[-1]


def test_more_waiting_than_the_limit_is_refused_with_limit_and_count(bench: Bench) -> None:
    for i in range(6):
        bench.submit(salt=bytes([i]) * 16)
    with pytest.raises(ReplicaFullError, match="6 sequences may wait, 6 do"):
        bench.submit()
    assert bench.loop.report().refused_total == 1


def test_a_refused_request_leaves_no_reference_cycle(bench: Bench) -> None:
    def refused_responder() -> weakref.ref[FakeResponder]:
        responder = FakeResponder()
        with pytest.raises(ReplicaFullError):
            bench.loop.submit(request(), responder)
        return weakref.ref(responder)

    for i in range(6):
        bench.submit(salt=bytes([i]) * 16)
    gc.disable()
    try:
        # Cycles would keep it; only what pytest itself remembers of the error may.
        reference = refused_responder()
        assert reference() is None
    finally:
        gc.enable()


def test_a_cancel_ends_decoding_before_the_next_step(bench: Bench) -> None:
    responder = bench.submit(output=100)
    for _ in range(5):
        bench.loop.turn()
    decoded = bench.loop.report().tokens_decoded_total
    responder.cancelled = True
    bench.loop.turn()
    load = bench.loop.report()
    assert reason(responder) is FinishReason.CANCELLED
    assert load.tokens_decoded_total == decoded
    assert load.tokens_decoded_after_cancel_total == 1
    assert load.live_sequences == 0
    assert load.cancelled_total == 1


def test_each_live_sequence_is_asked_once_before_each_step(bench: Bench) -> None:
    responders = [bench.submit(output=4, salt=bytes([i]) * 16) for i in range(3)]
    bench.run()
    # Once on its way into the engine, then before each of the three steps that follow the first.
    assert [responder.checks for responder in responders] == [5, 5, 5]


def test_a_sequence_cancelled_while_it_waits_never_reaches_the_engine(bench: Bench) -> None:
    live = [bench.submit(output=30, salt=bytes([i]) * 16) for i in range(4)]
    bench.loop.turn()
    computed = bench.loop.report().prompt_tokens_computed_total
    waiting = bench.submit(length=200)
    waiting.cancelled = True
    bench.run()
    assert reason(waiting) is FinishReason.CANCELLED
    assert waiting.tokens == ()
    assert all(len(responder.tokens) == 30 for responder in live)
    assert bench.loop.report().prompt_tokens_computed_total == computed


def test_every_waiting_sequence_is_asked_within_a_few_turns(bench: Bench) -> None:
    for i in range(4):
        bench.submit(output=200, salt=bytes([i]) * 16)
    bench.loop.turn()
    waiting = [bench.submit(salt=bytes([10 + i]) * 16) for i in range(6)]
    for _ in range(3):
        bench.loop.turn()
    assert all(responder.checks >= 1 for responder in waiting)


def test_a_late_request_computes_nothing(bench: Bench) -> None:
    responder = bench.submit(deadline_ms=0)
    bench.loop.turn()
    assert reason(responder) is FinishReason.DEADLINE
    assert bench.loop.report().prompt_tokens_computed_total == 0


def test_a_deadline_passes_while_waiting(bench: Bench) -> None:
    for i in range(4):
        bench.submit(output=100, salt=bytes([i]) * 16)
    responder = bench.submit(deadline_ms=5)
    for _ in range(7):
        bench.loop.turn()
    assert reason(responder) is FinishReason.DEADLINE
    assert responder.summary is not None
    assert responder.summary.queue_us == 5_000
    assert responder.summary.prefill_us == 0


def test_a_deadline_passes_while_decoding(bench: Bench) -> None:
    responder = bench.submit(output=100, deadline_ms=10)
    bench.run()
    assert reason(responder) is FinishReason.DEADLINE
    assert len(responder.tokens) == 10


def test_the_times_split_at_the_first_step_and_the_first_token(bench: Bench) -> None:
    responder = bench.submit(length=600, output=4)
    bench.clock.wait(700)
    bench.run()
    assert responder.summary is not None
    assert responder.summary.queue_us == 700
    assert responder.summary.prefill_us == 3 * STEP_US
    assert responder.summary.decode_us == 3 * STEP_US


def test_a_stop_in_the_middle_takes_the_sequence_out_of_the_engine(bench: Bench) -> None:
    free = bench.submit(output=10)
    bench.run()
    end = free.tokens[4]
    responder = bench.submit(output=10, end_ids=frozenset({end}))
    decoded = bench.loop.report().tokens_decoded_total
    bench.run()
    assert responder.tokens == free.tokens[: free.tokens.index(end)]
    assert reason(responder) is FinishReason.END_ID
    assert bench.loop.report().tokens_decoded_total == decoded + free.tokens.index(end) + 1


def test_cached_and_computed_prompt_tokens_are_counted_once(bench: Bench) -> None:
    bench.submit(length=600)
    bench.run()
    responder = bench.submit(length=600)
    bench.run()
    assert responder.summary is not None
    assert responder.summary.cached_tokens == 576
    load = bench.loop.report()
    assert load.prompt_tokens_cached_total == 576
    assert load.prompt_tokens_computed_total == 600 + 24


def test_a_broken_engine_fails_what_it_held_and_is_built_anew(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    held = [bench.submit(salt=bytes([i]) * 16) for i in range(4)]
    waiting = bench.submit(salt=b"w" * 16)
    bench.before_step.append(break_engine)
    bench.loop.turn()
    assert all(isinstance(responder.error, EngineFailedError) for responder in held)
    assert len(bench.engines) == 2
    bench.run()
    assert len(waiting.tokens) == 5
    assert bench.loop.report().engine_failures_total == 1
    assert "RuntimeError at break_engine" in caplog.text
    assert "4711" not in caplog.text
    assert "4711" not in str(held[0].error)


def test_while_no_engine_can_be_built_requests_are_refused_and_waiting_ones_fail(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = bench.submit()
    refused: list[ReplicaUnavailableError] = []

    def pause(seconds: float) -> None:
        assert not bench.host.is_loaded
        assert bench.loop.report().cache_blocks_total == 0
        with pytest.raises(ReplicaUnavailableError) as refusal:
            bench.submit()
        refused.append(refusal.value)

    for i in range(4):
        bench.submit(salt=bytes([i]) * 16)
    bench.before_step.append(break_engine)
    bench.build_errors += [OSError("no weights"), OSError("no weights")]
    monkeypatch.setattr(bench.loop, "_pause", pause)
    bench.loop.turn()
    assert isinstance(held.error, EngineFailedError)
    assert len(refused) == 2
    assert bench.host.is_loaded
    assert bench.loop.report().waiting_sequences == 0


def test_a_step_over_its_limit_counts_as_stuck_until_it_ends(bench: Bench) -> None:
    seen: list[bool] = []

    def dawdle() -> None:
        seen.append(bench.host.is_stuck(limit_us=2_000))
        bench.clock.wait(2_001)
        seen.append(bench.host.is_stuck(limit_us=2_000))

    bench.submit(output=2)
    bench.before_step.append(dawdle)
    bench.loop.turn()
    assert seen == [False, True]
    assert not bench.host.is_stuck(limit_us=2_000)


def test_a_caller_that_cannot_be_answered_disturbs_nobody(bench: Bench) -> None:
    gone = bench.submit(salt=b"g" * 16)
    gone.broken = True
    responder = bench.submit()
    bench.run()
    assert len(responder.tokens) == 5
    assert bench.loop.report().finished_total == 2


def test_stopping_cancels_what_runs_and_what_waits(bench: Bench) -> None:
    responders = [bench.submit(output=10**6, salt=bytes([i]) * 16) for i in range(6)]
    bench.loop.start()
    bench.loop.stop()
    assert [reason(responder) for responder in responders] == [FinishReason.CANCELLED] * 6
    with pytest.raises(ReplicaUnavailableError, match="stopping"):
        bench.submit()


def test_the_thread_serves_what_is_submitted_while_it_is_idle(bench: Bench) -> None:
    bench.loop.start()
    for i in range(3):
        responder = bench.submit(salt=bytes([i]) * 16)
        assert responder.ended.wait(timeout=10)
    bench.loop.stop()
    assert bench.loop.report().finished_total == 3


def test_an_engine_without_room_lets_sequences_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = bench.engines[0]

    def one_at_a_time(_: FakeEngine, spec: SequenceSpec) -> bool:
        return not engine._held

    monkeypatch.setattr(FakeEngine, "has_room_for", one_at_a_time)
    responders = [bench.submit(salt=bytes([i]) * 16) for i in range(3)]
    bench.loop.turn()
    assert bench.loop.report().live_sequences == 1
    bench.run()
    assert all(len(responder.tokens) == 5 for responder in responders)


def test_the_trace_holds_counts_and_times_alone(
    manifest: EngineManifest, clock: FakeClock, tmp_path: Path
) -> None:
    trace = FileTrace(tmp_path / "trace.jsonl")
    bench = make_bench(manifest, clock, trace)
    bench.submit(length=40, output=5)
    bench.run()
    trace.close()
    line = json.loads((tmp_path / "trace.jsonl").read_text())
    assert line == {
        "accepted_us": 1_000_000,
        "prompt_tokens": 40,
        "cached_tokens": 0,
        "computed_tokens": 40,
        "output_tokens": 5,
        "tokens_after_cancel": 0,
        "finish_reason": "length",
        "queue_us": 0,
        "prefill_us": 1_000,
        "decode_us": 4_000,
    }
