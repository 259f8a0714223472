"""Decayed quantiles and counters."""

import random

import pytest

from replica.load_report import DecayedQuantile, StepTimes


def test_an_empty_quantile_is_zero() -> None:
    assert DecayedQuantile(half_life=10).quantile(0.5) == 0


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_quantile_is_within_five_per_cent(share: float) -> None:
    rng, quantile = random.Random(1), DecayedQuantile(half_life=100_000)
    values = sorted(rng.lognormvariate(7, 1) for _ in range(5_000))
    for value in rng.sample(values, len(values)):
        quantile.observe(value)
    assert quantile.quantile(share) == pytest.approx(values[int(share * 5_000)], rel=0.06)


def test_old_values_fade() -> None:
    quantile = DecayedQuantile(half_life=20)
    for value in [100.0] * 10_000 + [1_000.0] * 40:
        quantile.observe(value)
    assert quantile.quantile(0.5) == pytest.approx(1_000, rel=0.05)


def test_values_outside_the_range_land_at_its_ends() -> None:
    quantile = DecayedQuantile(half_life=20)
    quantile.observe(0)
    assert quantile.quantile(0.5) == pytest.approx(1, rel=0.05)
    quantile.observe(2.0**60)
    assert quantile.quantile(0.99) >= 2.0**39


def test_a_step_with_prefill_counts_for_the_prefill_rate_alone() -> None:
    times = StepTimes()
    times.observe(1_000, 0)
    times.observe(50_000, 500)
    times.observe(5_000, 3)
    assert times.step_us() == pytest.approx(1_000, rel=0.05)
    assert times.prefill_tokens_per_s() == pytest.approx(10_000, rel=0.05)
