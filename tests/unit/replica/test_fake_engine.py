"""The engine's fake: deterministic, cached and paced."""

from dataclasses import replace

import pytest

from replica.engine import SequenceSpec, StepOutput
from replica.fake_engine import FakeEngine, FakePace
from replica.manifest import EngineManifest
from tests.unit.replica.conftest import FakeClock

SALT = b"s" * 16


def spec(length: int = 100, salt: bytes = SALT, output: int = 5, number: int = 1) -> SequenceSpec:
    return SequenceSpec(number, tuple(range(length)), salt, output)


@pytest.fixture
def engine(manifest: EngineManifest, clock: FakeClock) -> FakeEngine:
    return FakeEngine(manifest, blocks_total=64, pace=FakePace(), wait=clock.wait)


def run(engine: FakeEngine, *specs: SequenceSpec) -> dict[int, list[StepOutput]]:
    outputs: dict[int, list[StepOutput]] = {each.sequence_id: [] for each in specs}
    for each in specs:
        engine.add(each)
    for _ in range(1_000):
        for output in engine.step():
            outputs[output.sequence_id].append(output)
        if all(steps and steps[-1].finished for steps in outputs.values()):
            return outputs
    pytest.fail("the sequences did not finish")


def tokens(steps: list[StepOutput]) -> tuple[int, ...]:
    return tuple(token for step in steps for token in step.token_ids)


def test_the_same_prompt_and_salt_give_the_same_tokens(engine: FakeEngine) -> None:
    assert tokens(run(engine, spec())[1]) == tokens(run(engine, spec())[1])
    assert tokens(run(engine, spec())[1]) != tokens(run(engine, spec(salt=b"t" * 16))[1])


def test_a_prompt_that_goes_on_with_the_output_goes_on_the_same(engine: FakeEngine) -> None:
    all_tokens = tokens(run(engine, spec(output=6))[1])
    longer = replace(spec(output=3), prompt_ids=spec().prompt_ids + all_tokens[:3])
    assert tokens(run(engine, longer)[1]) == all_tokens[3:]


def test_sequences_together_get_what_they_get_alone(engine: FakeEngine) -> None:
    one, two = spec(40, number=1), spec(700, number=2)
    together = run(engine, one, two)
    assert tokens(together[1]) == tokens(run(engine, one)[1])
    assert tokens(together[2]) == tokens(run(engine, two)[2])


def test_prefill_takes_its_budget_of_tokens_a_step(engine: FakeEngine) -> None:
    steps = run(engine, spec(600))[1]
    assert [step.computed_tokens for step in steps if step.computed_tokens] == [256, 256, 88]
    assert [len(step.token_ids) for step in steps] == [0, 0, 1, 1, 1, 1, 1]


def test_whole_blocks_of_a_prompt_are_reused_under_its_salt(engine: FakeEngine) -> None:
    run(engine, spec(100))
    assert run(engine, spec(100))[1][0].cached_tokens == 96
    assert run(engine, spec(96))[1][0].cached_tokens == 95
    assert run(engine, spec(70))[1][0].cached_tokens == 64
    assert run(engine, spec(100, salt=b"t" * 16))[1][0].cached_tokens == 0


def test_the_oldest_blocks_leave_a_full_cache(engine: FakeEngine) -> None:
    for number in range(10):
        run(engine, spec(320, salt=bytes([number]) * 16))
    report = engine.cache_report()
    assert report.blocks_used == report.blocks_total == 64
    assert report.evictions_total == 100 - 64
    assert report.warm_sessions == 7
    assert run(engine, spec(320, salt=bytes([9]) * 16))[1][0].cached_tokens == 319
    assert run(engine, spec(320, salt=bytes([0]) * 16))[1][0].cached_tokens == 0


def test_a_step_takes_its_time_and_that_of_its_prefill(
    manifest: EngineManifest, clock: FakeClock
) -> None:
    pace = FakePace(step_us=1_000, prefill_tokens_per_s=10_000)
    engine = FakeEngine(manifest, 64, pace, clock.wait)
    before = clock.now_us
    run(engine, spec(200, output=3))
    assert clock.now_us - before == 3 * 1_000 + 20_000


def test_a_released_sequence_is_not_computed(engine: FakeEngine) -> None:
    engine.add(spec())
    engine.step()
    engine.release(1)
    assert engine.step() == []
