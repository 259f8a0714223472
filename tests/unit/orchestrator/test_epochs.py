"""The salt's epoch: constant while a session is active, another one after an idle span."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.affinity.epochs import Epoch, Epochs, epoch_after
from orchestrator.clock import ManualClock
from orchestrator.generation.fake import FakeInferenceClient, answer_with
from orchestrator.record.sinks import MemorySink
from tests.support.orchestrator import IDLE_MS, pipeline, request, tokenizer

GAPS_MS = st.lists(
    st.one_of(st.integers(0, IDLE_MS - 1), st.integers(IDLE_MS, 5 * IDLE_MS)), max_size=30
)
WALL_MS = st.integers(0, 2**41)


def uses(gaps_ms: list[int], wall_ms: int) -> list[tuple[int, int]]:
    """Epoch numbers of one partition, with the gap before each use."""
    now_ms, before, numbers = 0, None, []
    for gap_ms in [0, *gaps_ms]:
        now_ms += gap_ms
        before = epoch_after(before, now_ms, wall_ms + now_ms, IDLE_MS)
        numbers.append((gap_ms, before.number))
    return numbers


@given(GAPS_MS, WALL_MS)
def test_an_epoch_changes_after_an_idle_span_and_never_else(
    gaps_ms: list[int], wall_ms: int
) -> None:
    for (_, before), (gap_ms, after) in pairwise(uses(gaps_ms, wall_ms)):
        assert (after != before) == (gap_ms >= IDLE_MS)


@given(GAPS_MS, WALL_MS)
def test_an_epoch_never_comes_back(gaps_ms: list[int], wall_ms: int) -> None:
    numbers = [number for _, number in uses(gaps_ms, wall_ms)]
    assert numbers == sorted(numbers)


@given(WALL_MS, st.integers(0, 2**41))
def test_a_clock_that_was_set_back_still_gives_another_epoch(wall_ms: int, back_ms: int) -> None:
    before = epoch_after(None, 0.0, wall_ms, IDLE_MS)
    after = epoch_after(before, IDLE_MS, max(0, wall_ms + IDLE_MS - back_ms), IDLE_MS)
    assert after.number > before.number


@given(WALL_MS, st.integers(0, IDLE_MS - 1), st.integers(IDLE_MS, 10 * IDLE_MS))
def test_a_lost_entry_never_brings_back_what_was_idle(
    wall_ms: int, active_ms: int, idle_ms: int
) -> None:
    """A worker that restarted knows nothing, and still comes to a later epoch after the span."""
    began = epoch_after(None, 0.0, wall_ms, IDLE_MS)
    kept = epoch_after(began, active_ms, wall_ms + active_ms, IDLE_MS)
    assert kept.number == began.number
    forgotten = epoch_after(None, 0.0, wall_ms + active_ms + idle_ms, IDLE_MS)
    assert forgotten.number > began.number


def test_two_workers_that_begin_in_one_span_agree() -> None:
    wall_ms = 1_700_000_000_000 // IDLE_MS * IDLE_MS
    a, b = Epochs(10, IDLE_MS), Epochs(10, IDLE_MS)
    assert a.use(b"p", 0.0, wall_ms) == b.use(b"p", 55.0, wall_ms + IDLE_MS - 1)
    assert a.use(b"q", 0.0, wall_ms) != b.use(b"q", 0.0, wall_ms + IDLE_MS)


def test_a_typing_session_keeps_its_epoch_over_the_clocks_spans() -> None:
    epochs, wall_ms = Epochs(10, IDLE_MS), 1_700_000_000_000
    numbers = {epochs.use(b"p", at_ms, wall_ms + at_ms) for at_ms in range(0, 10 * IDLE_MS, 60_000)}
    assert len(numbers) == 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, IDLE_MS)), max_size=200))
def test_the_table_never_passes_its_bound(steps: list[tuple[int, int]]) -> None:
    epochs, now_ms = Epochs(8, IDLE_MS), 0
    for partition, gap_ms in steps:
        now_ms += gap_ms
        epochs.use(partition.to_bytes(4, "big"), now_ms, now_ms)
        assert len(epochs) <= 8


def test_a_use_is_remembered_with_its_time() -> None:
    assert epoch_after(Epoch(5, 10.0), 20.0, 0, IDLE_MS) == Epoch(5, 20.0)


async def test_the_pipelines_salt_stays_while_typing_and_changes_after_ten_idle_minutes() -> None:
    client = FakeInferenceClient(answer_with(list(tokenizer().encode("a"))))
    clock = ManualClock()
    served = pipeline(client, MemorySink(), clock)
    for gap_ms in (0, 1, IDLE_MS - 1, IDLE_MS, 1):
        clock.advance(gap_ms)
        now_ms = clock.now_ms()
        await served.complete(request(received_ms=now_ms, arrived_ms=now_ms))
    first, second, third, fourth, fifth = (asked.cache_salt for asked in client.requests)
    assert first == second == third
    assert third != fourth == fifth
    assert len({asked.session_key for asked in client.requests}) == 1
