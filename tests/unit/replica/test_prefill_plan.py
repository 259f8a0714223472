"""How much of a prompt one step computes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.prefill_plan import prefill_end


@pytest.mark.parametrize(
    ("prompt", "cached", "budget", "end"),
    [
        (100, 0, 256, 100),
        (256, 0, 256, 256),
        (257, 0, 256, 256),
        (1500, 0, 256, 256),
        (1500, 100, 256, 352),
        (1500, 1480, 256, 1500),
        (1500, 0, 31, 0),
    ],
)
def test_the_end_is_the_prompts_or_a_block_boundary(
    prompt: int, cached: int, budget: int, end: int
) -> None:
    assert prefill_end(prompt, cached, budget, 32) == end


@given(
    prompt=st.integers(1, 2_000),
    share=st.floats(0, 0.999),
    budget=st.integers(32, 600),
)
def test_a_budget_of_a_block_or_more_always_gets_on_within_the_budget(
    prompt: int, share: float, budget: int
) -> None:
    cached = int(prompt * share)
    end = prefill_end(prompt, cached, budget, 32)
    assert cached < end <= prompt
    assert end - cached <= budget
    assert end == prompt or end % 32 == 0
