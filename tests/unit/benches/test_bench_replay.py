"""What replies add up to."""

import math

import pytest

from scripts.benches.keystrokes import Kind
from scripts.benches.replay import Replies, Reply


def test_the_cached_share_is_of_tokens_not_of_requests() -> None:
    replies = Replies(
        [Reply(Kind.OPENED, 100.0, 1_000, 0), Reply(Kind.CHARACTER, 10.0, 3_000, 2_900)]
    )
    assert replies.cached_share == pytest.approx(2_900 / 4_000)
    assert replies.computed_tokens == 1_100
    assert replies.latency_ms(0.95) == 100.0


def test_without_answers_there_is_no_share() -> None:
    assert math.isnan(Replies().cached_share)


def test_kinds_are_told_apart_and_requests_without_figures_are_kept_out() -> None:
    opened, typed = Reply(Kind.OPENED, 1.0, 10, 0), Reply(Kind.CHARACTER, 1.0, 10, 9)
    replies = Replies([opened, typed], {"expired": 2})
    assert replies.of([Kind.CHARACTER]).answered == [typed]
    assert replies.missing == 2
    assert replies.prompt_tokens == 20


def test_joined_replies_add_up() -> None:
    first = Replies([Reply(Kind.OPENED, 1.0, 10, 0)], {"expired": 1})
    second = Replies([Reply(Kind.CHARACTER, 1.0, 10, 9)], {"expired": 2, "failed": 1})
    joined = first.joined(second)
    assert joined.answered == first.answered + second.answered
    assert joined.without_figures == {"expired": 3, "failed": 1}
