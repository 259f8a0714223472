import math
import random

import pytest

from scripts.benches.two_sample import (
    compare,
    critical_distance,
    distance,
    smallest_shift_seen,
    tail,
)

ALPHA = 0.001


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], 0.0),
        ([1, 2, 3], [4, 5, 6], 1.0),
        ([1, 2, 3, 4], [3, 4, 5, 6], 0.5),
        ([1], [0, 1, 2], 1 / 3),
        ([1, 1, 2], [1, 2, 2], 1 / 3),  # ties are stepped over in both at once
    ],
)
def test_the_distance_is_the_largest_gap_of_the_distribution_functions(
    a: list[float], b: list[float], expected: float
) -> None:
    assert distance(a, b) == pytest.approx(expected)
    assert distance(b, a) == pytest.approx(expected)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="0 and 1 values"):
        distance([], [1.0])


def test_the_critical_distance_is_the_tables_value() -> None:
    # Smirnov's table: 1.36 at 5 %, 1.63 at 1 %, 1.95 at 0.1 %, times sqrt((n + m) / nm).
    for alpha, coefficient in ((0.05, 1.36), (0.01, 1.63), (0.001, 1.95)):
        expected = coefficient * math.sqrt(500 / 62_500)
        assert critical_distance(alpha, 250, 250) == pytest.approx(expected, rel=0.003)


def test_the_tail_is_smirnovs_and_falls_from_one_to_nothing() -> None:
    assert tail(1.36) == pytest.approx(0.0494, abs=5e-4)
    assert tail(0.5) == pytest.approx(0.9639, abs=5e-4)
    assert tail(0.1) == 1.0
    values = [tail(x / 20) for x in range(60)]
    assert values == sorted(values, reverse=True)


def test_the_p_value_and_the_verdict_agree() -> None:
    rng = random.Random(1)
    for shift in (0.0, 0.1, 0.3, 0.5):
        a = [rng.gauss(0, 1) for _ in range(250)]
        b = [rng.gauss(shift, 1) for _ in range(250)]
        verdict = compare(a, b, ALPHA)
        assert verdict.differs == (verdict.p_value < ALPHA)


def test_equal_distributions_are_rejected_as_seldom_as_alpha_says() -> None:
    rng = random.Random(2)
    samples = [[rng.expovariate(1) for _ in range(100)] for _ in range(800)]
    pairs = zip(samples[::2], samples[1::2], strict=True)
    rejected = sum(compare(a, b, 0.05).differs for a, b in pairs)
    assert 4 <= rejected <= 30  # 400 pairs at 5 %; the limit law is a little cautious


def test_a_small_share_of_reuse_is_seen() -> None:
    rng = random.Random(3)
    cold = [rng.gauss(30, 2) for _ in range(250)]
    mixed = [rng.gauss(30 if rng.random() < 0.7 else 5, 2) for _ in range(250)]
    assert compare(cold, mixed, ALPHA).differs


def test_the_smallest_shift_seen_is_where_the_verdict_turns() -> None:
    rng = random.Random(4)
    a, b = ([rng.gauss(30, 2) for _ in range(250)] for _ in range(2))
    shift = smallest_shift_seen(a, b, ALPHA)
    assert 0 < shift < 2
    assert compare([value - shift for value in a], b, ALPHA).differs
    assert not compare([value - shift * 0.9 for value in a], b, ALPHA).differs
