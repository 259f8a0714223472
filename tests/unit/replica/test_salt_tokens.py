"""From salt bytes to leading tokens."""

from hypothesis import given
from hypothesis import strategies as st

from replica.salt import ordinary_token_ids, salt_token_ids

CONTROL_IDS = frozenset({0, 1, 2, 8191})
ORDINARY_IDS = ordinary_token_ids(8192, CONTROL_IDS)
PINNED = (1038, 2693, 8051, 4557, 5689, 3960, 7024, 6280)


def test_the_tokens_are_pinned_because_they_change_what_the_model_says() -> None:
    assert salt_token_ids(bytes(16), 8, ORDINARY_IDS) == PINNED


@given(salt=st.binary(min_size=16, max_size=64), count=st.integers(1, 20))
def test_a_salt_gives_that_many_ordinary_tokens_and_always_the_same(
    salt: bytes, count: int
) -> None:
    ids = salt_token_ids(salt, count, ORDINARY_IDS)
    assert len(ids) == count
    assert not CONTROL_IDS.intersection(ids)
    assert ids == salt_token_ids(salt, count, ORDINARY_IDS)
    assert ids == salt_token_ids(salt, 20, ORDINARY_IDS)[:count]


def test_salts_that_differ_in_one_bit_differ_in_the_first_token() -> None:
    firsts = {salt_token_ids(bytes([i]) * 16, 8, ORDINARY_IDS)[0] for i in range(100)}
    assert len(firsts) > 95


def test_every_part_of_the_vocabulary_is_used() -> None:
    ids = [i for n in range(500) for i in salt_token_ids(n.to_bytes(16), 8, ORDINARY_IDS)]
    assert min(ids) < 100
    assert max(ids) > 8_100
    assert len(set(ids)) > 2_500
