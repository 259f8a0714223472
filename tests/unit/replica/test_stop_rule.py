"""Where a sequence ends."""

from hypothesis import given
from hypothesis import strategies as st

from replica.stop_rule import FinishReason, StopConditions, StopMatcher


def output_of(
    conditions: StopConditions, tokens: list[int]
) -> tuple[list[int], FinishReason | None]:
    matcher, output = StopMatcher(conditions), []
    for token in tokens:
        is_output, reason = matcher.feed(token)
        if is_output:
            output.append(token)
        if reason:
            return output, reason
    return output, None


def test_an_end_id_is_not_part_of_the_output() -> None:
    conditions = StopConditions(10, end_ids=frozenset({0, 9}))
    assert output_of(conditions, [5, 6, 9, 7]) == ([5, 6], FinishReason.END_ID)


def test_the_newline_token_is_part_of_the_output() -> None:
    conditions = StopConditions(10, newline_ids=frozenset({8}))
    assert output_of(conditions, [5, 8, 7]) == ([5, 8], FinishReason.STOP_RULE)


def test_an_end_id_wins_over_the_newline_rule() -> None:
    conditions = StopConditions(10, end_ids=frozenset({8}), newline_ids=frozenset({8}))
    assert output_of(conditions, [5, 8]) == ([5], FinishReason.END_ID)


def test_a_stop_word_ends_with_its_last_token() -> None:
    conditions = StopConditions(10, stop_words=((1, 2, 3), (7,)))
    assert output_of(conditions, [1, 2, 1, 2, 3, 4]) == ([1, 2, 1, 2, 3], FinishReason.STOP_WORD)
    assert output_of(conditions, [1, 7, 2]) == ([1, 7], FinishReason.STOP_WORD)


def test_a_word_that_ends_at_the_length_counts_as_the_word() -> None:
    conditions = StopConditions(2, stop_words=((1, 2),))
    assert output_of(conditions, [1, 2]) == ([1, 2], FinishReason.STOP_WORD)


def test_the_length_ends_the_output_with_its_token() -> None:
    assert output_of(StopConditions(3), [1, 2, 3, 4]) == ([1, 2, 3], FinishReason.LENGTH)


@given(
    tokens=st.lists(st.integers(0, 4), max_size=40),
    word=st.lists(st.integers(0, 4), min_size=1, max_size=4),
)
def test_a_stop_word_is_found_where_it_first_occurs(tokens: list[int], word: list[int]) -> None:
    output, reason = output_of(StopConditions(1_000, stop_words=(tuple(word),)), tokens)
    places = [
        end for end in range(len(word), len(tokens) + 1) if tokens[end - len(word) : end] == word
    ]
    assert output == (tokens[: places[0]] if places else tokens)
    assert (reason is FinishReason.STOP_WORD) == bool(places)
