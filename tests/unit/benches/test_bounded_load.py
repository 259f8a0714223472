import math
import random

import pytest

from scripts.benches.bounded_load import (
    Situation,
    bound,
    even,
    place,
    simulate,
    with_hot,
)


@pytest.mark.parametrize(
    ("live_all", "factor", "replicas", "expected"),
    [
        (0, 2.0, 4, 1),  # never below one
        (0, 2.0, 2, 1),
        (9, 2.0, 2, 10),
        (9, 1.25, 4, 4),  # ceil(12.5 / 4)
        (80, 1.25, 20, 6),  # ceil(101.25 / 20)
    ],
)
def test_the_bound_is_envoys(live_all: int, factor: float, replicas: int, expected: int) -> None:
    assert bound(live_all, factor, replicas) == expected


def test_a_stream_stays_at_home_up_to_the_bound_and_leaves_above_it() -> None:
    rng = random.Random(1)
    # 8 live, factor 1.25: the bound is ceil(ceil(11.25) / 4) = 3.
    assert place([3, 2, 2, 1], 0, 1.25, rng) == 0
    assert place([4, 2, 1, 1], 0, 1.25, rng) in {1, 2, 3}


def test_a_stream_never_leaves_for_a_replica_over_its_bound_while_another_is_within() -> None:
    rng = random.Random(2)
    assert {place([9, 9, 0, 9], 0, 1.0, rng) for _ in range(50)} == {2}


def test_two_equal_replicas_at_factor_two_never_spill() -> None:
    rng = random.Random(3)
    for _ in range(2000):
        live = [rng.randrange(50), rng.randrange(50)]
        home = rng.randrange(2)
        assert place(live, home, 2.0, rng) == home


def test_without_a_bound_the_hot_replica_carries_its_share() -> None:
    outcome = simulate(Situation(with_hot(4, 2.0), 8.0, math.inf), 10_000, seed=1)
    assert outcome.spilled == 0
    assert outcome.mean_live[0] == pytest.approx(16, rel=0.1)
    assert sum(outcome.mean_live) == pytest.approx(32, rel=0.05)


def test_the_bound_keeps_the_hot_replica_near_the_factor() -> None:
    outcome = simulate(Situation(with_hot(4, 2.0), 20.0, 1.25), 10_000, seed=1)
    assert outcome.mean_live[0] / 20 == pytest.approx(1.25, abs=0.1)
    # Half of all have the hot home; 1.25 quarters of all may stay.
    assert outcome.spilled_share == pytest.approx(0.5 - 1.25 / 4, abs=0.03)


def test_chance_spills_less_the_wider_the_factor_and_the_more_there_is_in_flight() -> None:
    def share(in_flight: float, factor: float) -> float:
        return simulate(Situation(even(20), in_flight, factor), 3_000, seed=1).spilled_share

    assert share(4, 1.25) > share(4, 1.5) > share(4, 2.0)
    assert share(4, 1.25) > share(16, 1.25)


def test_a_seed_gives_the_same_run() -> None:
    situation = Situation(even(5), 4.0, 1.5)
    assert simulate(situation, 2_000, seed=7) == simulate(situation, 2_000, seed=7)


def test_a_hot_share_over_everything_is_refused() -> None:
    with pytest.raises(ValueError, match="2 replicas cannot get 3"):
        with_hot(2, 3)
