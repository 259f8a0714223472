"""The mirror's rules, one by one; the oracle test holds it against the library itself."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from replica.cache_mirror import CacheMirror

BLOCK = 32


@dataclass
class Driver:
    """Runs whole sequences through a mirror."""

    mirror: CacheMirror
    count: int = 0
    held: list[int] = field(default_factory=list)

    def start(self, prompt: list[int], partition: int = 0) -> int:
        """Add a prompt and compute it. Returns the tokens reused."""
        self.count += 1
        reused = self.mirror.add(self.count, prompt, partition)
        self.mirror.prefill(self.count, len(prompt) - reused)
        self.mirror.append(self.count, 1)
        self.held.append(self.count)
        return reused

    def decode(self, tokens: list[int]) -> None:
        for token in tokens:
            self.mirror.decode(self.held[-1])
            self.mirror.append(self.held[-1], token)

    def end(self) -> None:
        self.mirror.release(self.held.pop())

    def whole(self, prompt: list[int], output: list[int] | None = None, partition: int = 0) -> int:
        reused = self.start(prompt, partition)
        self.decode(output or [])
        self.end()
        return reused


def driver(blocks: int = 100) -> Driver:
    return Driver(CacheMirror(blocks, BLOCK))


def prompt(length: int, seed: int = 0) -> list[int]:
    return [10_000 * seed + i for i in range(length)]


def test_a_prompt_sent_again_computes_its_last_token_alone() -> None:
    d = driver()
    assert d.whole(prompt(100)) == 0
    assert d.whole(prompt(100)) == 99


def test_a_longer_prompt_reuses_even_the_partly_filled_last_block() -> None:
    d = driver()
    d.whole(prompt(100))
    assert d.whole(prompt(103)) == 100


def test_what_was_decoded_takes_the_last_block_away_from_the_prompt() -> None:
    d = driver()
    d.whole(prompt(100), output=[5, 6])
    assert d.whole(prompt(103)) == 96


def test_generated_tokens_are_reused_when_they_come_back_in_the_prompt() -> None:
    d = driver()
    d.whole(prompt(100), output=list(range(40)))
    # 100 of the prompt and 40 of 41 generated: the last one was never fed back.
    assert d.whole([*prompt(100), 1, *range(40), 9]) == 140


def test_an_edit_costs_its_block_and_all_after_it() -> None:
    d = driver()
    d.whole(prompt(320))
    assert d.whole([*prompt(170), 7, *prompt(320)[171:]]) == 160


def test_a_shorter_prompt_reuses_whole_blocks() -> None:
    d = driver()
    d.whole(prompt(320))
    assert d.whole(prompt(200)) == 192
    assert d.whole(prompt(192)) == 191


def test_a_first_token_that_differs_reuses_nothing() -> None:
    d = driver()
    d.whole(prompt(100))
    assert d.whole([7, *prompt(100)[1:]]) == 0


def test_the_block_looked_up_longest_ago_is_overwritten_first() -> None:
    d = driver(blocks=9)
    for seed in range(3):
        d.whole(prompt(96, seed))
    d.whole(prompt(96, 0))
    d.whole(prompt(96, 9))
    assert d.mirror.report().evictions_total == 3
    assert d.mirror.peek(prompt(96, 1)).tokens == 0
    assert d.mirror.peek(prompt(96, 0)).tokens == 95
    assert d.mirror.peek(prompt(96, 2)).tokens == 95


def test_a_held_block_is_never_overwritten() -> None:
    d = driver(blocks=6)
    d.start(prompt(96, 0))
    for seed in range(1, 5):
        d.whole(prompt(64, seed))
    assert d.mirror.peek(prompt(96, 0)).tokens == 95


def test_blocks_are_held_while_a_sequence_runs_and_findable_after() -> None:
    d = driver()
    d.start(prompt(96))
    d.decode([5])
    assert d.mirror.blocks_held() == 4
    d.start(prompt(96))
    assert d.mirror.blocks_held() == 4
    d.end()
    d.end()
    assert d.mirror.blocks_held() == 0
    assert d.mirror.report().blocks_used == 4


def test_a_shared_last_block_is_copied_when_one_of_the_two_decodes() -> None:
    d = driver()
    d.start(prompt(100))
    d.start(prompt(100))
    assert d.mirror.blocks_held() == 4
    d.decode([5])
    assert d.mirror.blocks_held() == 5


def test_two_computations_of_one_prompt_leave_one_findable_copy() -> None:
    d = driver()
    for number in (1, 2):
        d.mirror.add(number, prompt(64), 0)
    for number in (1, 2):
        d.mirror.prefill(number, 64)
    assert d.mirror.blocks_held() == 4
    for number in (1, 2):
        d.mirror.release(number)
    assert d.mirror.report().blocks_used == 2
    assert d.whole(prompt(64)) == 63


def test_warm_sessions_are_the_partitions_with_blocks() -> None:
    d = driver(blocks=6)
    for seed in range(3):
        d.whole(prompt(64, seed), partition=seed)
    assert d.mirror.report().warm_sessions == 3
    d.whole(prompt(128, 9), partition=9)
    assert d.mirror.report().warm_sessions == 2


def test_peek_says_whether_the_prompt_would_write_into_a_block_that_another_holds() -> None:
    d = driver()
    d.start(prompt(100))
    match = d.mirror.peek(prompt(103))
    assert (match.tokens, match.last_block_is_open, match.last_block_is_held) == (100, True, True)
    d.end()
    assert d.mirror.peek(prompt(103)).last_block_is_held is False
    assert d.mirror.peek([*prompt(96), 1]).last_block_is_open is False
    assert d.mirror.peek(prompt(100)).last_block_is_open is False


PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=100)
REQUESTS = st.tuples(PROMPTS, st.lists(st.integers(0, 1), max_size=40), st.booleans())


@settings(max_examples=50, deadline=None)
@given(requests=st.lists(REQUESTS, max_size=25))
def test_blocks_never_appear_or_vanish_and_reuse_is_a_true_prefix(
    requests: list[tuple[list[int], list[int], bool]],
) -> None:
    d = driver(blocks=24)
    seen: list[list[int]] = []
    for tokens, output, ends in requests:
        reused = d.start(tokens)
        assert 0 <= reused < len(tokens)
        assert not reused or any(tokens[:reused] == past[:reused] for past in seen)
        d.decode(output)
        seen.append([*tokens, 1, *output])
        report = d.mirror.report()
        assert d.mirror.blocks_held() <= report.blocks_used <= report.blocks_total
        if ends or len(d.held) == 4:
            d.end()
    while d.held:
        d.end()
    assert d.mirror.blocks_held() == 0
