import pytest

from control_plane.ramp import is_over, percent_at, weight_at
from control_plane.topology import Ramp

DEFAULT = Ramp()


@pytest.mark.parametrize(
    ("elapsed_s", "percent"),
    [(0, 10), (33, 10), (34, 20), (100, 40), (166, 50), (167, 60), (299.9, 90), (300, 100)],
)
def test_the_default_goes_from_10_to_100_percent_in_five_minutes(
    elapsed_s: float, percent: int
) -> None:
    assert percent_at(DEFAULT, 0.0, elapsed_s) == percent


def test_the_default_takes_nine_changes_of_ten_points_each() -> None:
    seen = [percent_at(DEFAULT, 0.0, tenths / 10) for tenths in range(3100)]
    assert sorted(set(seen)) == list(range(10, 101, 10))
    assert seen == sorted(seen)


def test_before_it_begins_a_slot_has_the_first_share() -> None:
    assert percent_at(DEFAULT, None, 1e9) == 10


def test_a_clock_set_back_gives_no_more_than_the_first_share() -> None:
    assert percent_at(DEFAULT, 100.0, 50.0) == 10


@pytest.mark.parametrize("began_at_s", [None, 0.0])
def test_a_ramp_of_no_duration_is_none(began_at_s: float | None) -> None:
    assert percent_at(Ramp(duration_s=0), began_at_s, 0.0) == 100


def test_a_ramp_in_one_step_jumps_at_its_end() -> None:
    ramp = Ramp(start_percent=50, duration_s=10, steps=1)
    assert [percent_at(ramp, 0.0, t) for t in (0, 9.9, 10)] == [50, 50, 100]


def test_it_is_over_when_the_weight_is_full() -> None:
    assert [is_over(DEFAULT, 100.0, now_s) for now_s in (399.9, 400.0)] == [False, True]


@pytest.mark.parametrize(
    ("weight", "percent", "given"), [(100, 10, 10), (1000, 55, 550), (1, 10, 1)]
)
def test_a_share_of_a_weight_is_whole_and_never_none(weight: int, percent: int, given: int) -> None:
    assert weight_at(weight, percent) == given
