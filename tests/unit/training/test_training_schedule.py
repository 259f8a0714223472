"""Progress, rates and row lengths."""

from dataclasses import replace

import pytest

from builders.training.recipe import Optimisation
from builders.training.schedule import PAUSE_GAP_S, Budget, WorkClock, rate_scale, row_tokens

PLAN = Optimisation()


def test_rates_warm_up_over_a_hundred_steps() -> None:
    assert rate_scale(PLAN, 0, 0.0) == pytest.approx(0.01)
    assert rate_scale(PLAN, 49, 0.1) == pytest.approx(0.5)
    assert rate_scale(PLAN, 99, 0.1) == 1.0


def test_rates_fall_in_a_line_to_two_in_a_hundred() -> None:
    assert rate_scale(PLAN, 500, 0.6) == 1.0
    assert rate_scale(PLAN, 500, 0.8) == pytest.approx(0.51)
    assert rate_scale(PLAN, 500, 1.0) == pytest.approx(0.02)


def test_a_peak_scale_lowers_the_whole_curve() -> None:
    halved = replace(PLAN, peak_scale=0.5)
    for progress in (0.0, 0.5, 0.9, 1.0):
        assert rate_scale(halved, 500, progress) == 0.5 * rate_scale(PLAN, 500, progress)


def test_rows_grow_at_six_tenths() -> None:
    assert row_tokens(PLAN, 0.599) == 512
    assert row_tokens(PLAN, 0.6) == 1_536


def test_progress_by_steps_ignores_time() -> None:
    budget = Budget(steps=8)
    assert budget.progress(2, worked_s=1e9, now_epoch_s=1e9) == 0.25
    assert budget.progress(9, worked_s=0.0, now_epoch_s=0.0) == 1.0


def test_progress_by_time_is_the_share_of_worked_time() -> None:
    budget = Budget(work_s=100.0)
    assert budget.progress(7, worked_s=25.0, now_epoch_s=5e9) == 0.25
    assert budget.progress(7, worked_s=101.0, now_epoch_s=5e9) == 1.0


def test_a_deadline_shortens_a_time_budget() -> None:
    budget = Budget(work_s=100.0, finish_at_s=1_000.0)
    assert budget.progress(0, worked_s=25.0, now_epoch_s=975.0) == 0.5
    assert budget.progress(0, worked_s=25.0, now_epoch_s=1_000.0) == 1.0


def test_progress_never_goes_back_while_a_deadline_nears() -> None:
    budget = Budget(finish_at_s=1_000.0)
    seen = [budget.progress(0, worked, 100.0 + 2 * worked) for worked in range(1, 450, 50)]
    assert seen == sorted(seen)


def test_work_is_counted_and_pauses_are_not() -> None:
    clock = WorkClock()
    clock.tick(10.0)
    clock.tick(12.5)
    clock.tick(12.5 + PAUSE_GAP_S + 600.0)
    assert clock.tick(613.5 + PAUSE_GAP_S) == pytest.approx(3.5)


def test_a_resumed_clock_goes_on_from_its_sum() -> None:
    clock = WorkClock(worked_s=100.0)
    clock.tick(5.0)
    assert clock.tick(6.0) == 101.0
