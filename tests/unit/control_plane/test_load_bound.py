import itertools
import random

import pytest

from control_plane.load_bound import (
    HOLD_S,
    LEVELS,
    PoolBound,
    exact_factor,
    next_factor,
    observe,
)
from control_plane.topology import LoadBound

DEFAULT = LoadBound()


@pytest.mark.parametrize(
    ("in_flight", "factor"),
    [(0, 2.0), (16, 2.0), (28, 1.625), (40, 1.25), (1000, 1.25)],
)
def test_the_factor_falls_from_2_below_16_in_flight_to_1_25_above_40(
    in_flight: float, factor: float
) -> None:
    assert exact_factor(DEFAULT, in_flight) == factor


@pytest.mark.parametrize(
    ("in_flight", "factor"), [(0, 2.0), (21, 1.75), (24, 1.75), (32, 1.5), (39, 1.25), (60, 1.25)]
)
def test_from_the_far_end_it_takes_the_nearest_of_four_levels(
    in_flight: float, factor: float
) -> None:
    far = 1.25 if factor > 1.5 else 2.0
    assert next_factor(DEFAULT, far, in_flight) == factor


def test_load_that_wavers_around_a_border_changes_nothing() -> None:
    # The border between 2.0 and 1.75 lies at 20; a quarter of a step of hysteresis is 2 requests.
    for in_flight in (18.0, 20.0, 22.0):
        assert next_factor(DEFAULT, 2.0, in_flight) == 2.0
        assert next_factor(DEFAULT, 1.75, in_flight) == 1.75
    assert next_factor(DEFAULT, 2.0, 22.1) == 1.75
    assert next_factor(DEFAULT, 1.75, 17.9) == 2.0


def test_every_level_can_be_reached_and_there_are_few() -> None:
    up = itertools.accumulate(range(60), lambda f, load: next_factor(DEFAULT, f, load), initial=2.0)
    assert sorted(set(up)) == [1.25, 1.5, 1.75, 2.0]
    assert LEVELS == 4


def test_a_factor_from_other_settings_is_left_at_once() -> None:
    assert next_factor(DEFAULT, 3.0, 0.0) == 2.0
    assert next_factor(DEFAULT, 1.0, 1000.0) == 1.25


def run(loads: list[float], start: PoolBound) -> list[PoolBound]:
    """One look a second."""
    bounds = [start]
    for second, load in enumerate(loads, 1):
        bounds.append(observe(bounds[-1], DEFAULT, load, float(second)))
    return bounds


def test_a_rise_is_followed_after_the_hold_and_then_held_again() -> None:
    bounds = run([60.0] * 100, PoolBound(2.0, changed_at_s=0.0))
    changes = [b.changed_at_s for b in bounds[1:] if b.changed_at_s != 0.0]
    assert bounds[-1].factor == 1.25
    assert min(changes) == HOLD_S
    assert len(set(changes)) <= 2


def test_a_burst_of_some_seconds_changes_nothing() -> None:
    loads = [4.0] * 60 + [60.0] * 10 + [4.0] * 60
    assert {b.factor for b in run(loads, PoolBound(2.0, 0.0))} == {2.0}


def test_noisy_load_around_a_border_changes_the_factor_only_now_and_then() -> None:
    rng = random.Random(7)
    loads = [max(0.0, rng.gauss(20.0, 8.0)) for _ in range(3600)]  # over an hour
    bounds = run(loads, PoolBound(2.0, 0.0))
    changes = sum(a.factor != b.factor for a, b in itertools.pairwise(bounds))
    assert changes <= 10


def test_a_lasting_rise_is_followed_within_a_minute() -> None:
    bounds = run([60.0] * 60, PoolBound(2.0, -HOLD_S, in_flight=4.0))
    changes = {b.changed_at_s: b.factor for b in bounds[1:] if b.changed_at_s > 0}
    assert changes == {17.0: 1.75, 47.0: 1.25}


def test_an_unknown_load_keeps_what_is() -> None:
    bound = PoolBound(1.5, 0.0, in_flight=30.0, observed_at_s=9.0)
    assert observe(bound, DEFAULT, None, 1000.0) is bound


def test_the_load_is_smoothed_over_half_a_minute_and_the_first_report_counts_whole() -> None:
    first = observe(PoolBound(2.0, 0.0), DEFAULT, 8.0, 1.0)
    assert first.in_flight == 8.0
    assert observe(first, DEFAULT, 16.0, 31.0).in_flight == pytest.approx(12.0)
    assert observe(first, DEFAULT, 16.0, 0.5).in_flight == 8.0, "a clock set back counts as none"
