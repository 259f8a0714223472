import pytest

from scripts.benches.hot_range import Phase, Stream, is_in_force, published_factor


def phase() -> Phase:
    """Counted from 10 s to 20 s; two slots, one stream before the warm-up's end."""
    streams = [
        Stream("slot-0", 8.0, "slot-0", 12.0),  # before the count, still there for 2 s of it
        Stream("slot-0", 10.0, "slot-0", 15.0),
        Stream("slot-0", 12.0, "slot-1", 16.0),  # spilled
        Stream("slot-1", 19.0, "slot-1", 25.0),  # 1 s of it is counted
    ]
    return Phase(2.0, 10.0, 20.0, streams)


def test_the_mean_load_is_the_streams_time_within_the_count() -> None:
    assert phase().mean_live("slot-0") == pytest.approx((2 + 5) / 10)
    assert phase().mean_live("slot-1") == pytest.approx((4 + 1) / 10)


def test_shares_are_of_the_requests_that_arrived_within_the_count() -> None:
    assert phase().spilled_share == pytest.approx(1 / 3)
    assert phase().share_of("slot-0") == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("factor", "accepted", "expected"),
    [(1.5, "v2", True), (1.5, "v1", False), (2.0, "v2", False)],
)
def test_a_factor_is_in_force_once_every_type_of_its_version_is_accepted(
    factor: float, accepted: str, expected: bool
) -> None:
    status = {
        "published_version": "v2",
        "pools": [
            {"pool": "large", "hash_balance_factor": 9.0},
            {"pool": "fast", "hash_balance_factor": 1.5},
        ],
        "nodes": [
            {"types": {"CDS": {"accepted_version": "v2"}, "EDS": {"accepted_version": accepted}}}
        ],
    }
    assert published_factor(status) == 1.5
    assert is_in_force(status, factor) is expected
