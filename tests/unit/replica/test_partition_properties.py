"""Whatever was sent before under other salts, a prompt finds nothing under a new one."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.session import SessionHasher
from replica.cache_mirror import CacheMirror
from replica.salt import ordinary_token_ids, salt_token_ids
from scripts.benches.partitions import OTHERS, salts_of

BLOCK_TOKENS, SALT_TOKENS = 4, 8
ORDINARY_IDS = ordinary_token_ids(8_192, frozenset(range(7)))
PROMPTS = st.lists(st.integers(100, 103), min_size=1, max_size=24)


def salted(salt: bytes, prompt: list[int]) -> tuple[int, ...]:
    return (*salt_token_ids(salt, SALT_TOKENS, ORDINARY_IDS), *prompt)


@given(
    secret=st.binary(min_size=32, max_size=32),
    what=st.sampled_from(sorted(OTHERS)),
    history=st.lists(PROMPTS, min_size=1, max_size=6),
    prompt=PROMPTS,
)
def test_no_history_of_one_partition_leaves_anything_to_another(
    secret: bytes, what: str, history: list[list[int]], prompt: list[int]
) -> None:
    ours, theirs = salts_of(SessionHasher(secret), what)
    mirror = CacheMirror(400, BLOCK_TOKENS)
    for number, each in enumerate([*history, prompt]):
        tokens = salted(ours, each)
        reused = mirror.add(number, tokens, hash(ours))
        mirror.prefill(number, len(tokens) - reused)
        mirror.release(number)
    # The control: our own prompt finds its whole blocks, the salt's two at least.
    assert mirror.peek(salted(ours, prompt)).tokens >= SALT_TOKENS
    assert mirror.peek(salted(theirs, prompt)).tokens == 0
