import pytest

from orchestrator.deadline import RECEIPT_AGE_MAX_MS, DeadlineLimits, deadline_of, receipt_age_ms
from orchestrator.request import Mode
from tests.support.orchestrator import request

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("stamp", "age_ms"),
    [
        (str(NOW - 25), 25),
        (str(NOW), 0),
        (str(NOW + 1), 0),
        (str(NOW - RECEIPT_AGE_MAX_MS), RECEIPT_AGE_MAX_MS),
        (str(NOW - RECEIPT_AGE_MAX_MS - 1), 0),
        ("", 0),
        (None, 0),
        ("-5", 0),
        ("1e12", 0),
        ("²", 0),
        ("9" * 4000, 0),
    ],
)
def test_nonsense_stamps_count_as_no_wait(stamp: str | None, age_ms: int) -> None:
    assert receipt_age_ms(stamp, NOW) == age_ms


@pytest.mark.parametrize(
    ("mode", "wish", "limit_ms"),
    [
        (Mode.LINE, None, 800),
        (Mode.BLOCK, None, 2000),
        (Mode.LINE, 300, 300),
        (Mode.LINE, 5000, 800),
        (Mode.BLOCK, 1999, 1999),
    ],
)
def test_the_client_may_shorten_the_deadline_and_never_lengthen_it(
    mode: Mode, wish: int | None, limit_ms: int
) -> None:
    deadline = deadline_of(
        request(received_ms=100.0, client_deadline_ms=wish), mode, DeadlineLimits()
    )
    assert deadline.limit_ms == limit_ms
    assert deadline.at_ms == 100.0 + limit_ms


def test_the_deadline_counts_from_the_edge_and_not_from_our_arrival() -> None:
    deadline = deadline_of(request(received_ms=0.0, arrived_ms=700.0), Mode.LINE, DeadlineLimits())
    assert deadline.remaining_ms(now_ms=700.0) == 100.0
