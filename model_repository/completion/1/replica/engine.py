"""The narrow seam between the replica and what generates: the `Engine` Protocol and its types.

Rule: an engine is owned by one thread and knows one reason to stop, the length it was given. Every
other reason is the loop's, which looks at each token between two steps and then calls `release`:
the sequence leaves the batch before the next step, so nothing is computed in vain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SequenceSpec:
    """One sequence to generate.

    Attributes:
        sequence_id: unique among the sequences that the engine holds.
        prompt_ids: the rendered prompt, without the salt; at least one token.
        cache_salt: 16 to 64 bytes; prompts under different salts share nothing in the cache.
        output_tokens_max: most tokens to generate, at least 1.
    """

    sequence_id: int
    prompt_ids: tuple[int, ...]
    cache_salt: bytes
    output_tokens_max: int


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one step did for one sequence.

    Attributes:
        sequence_id: the sequence.
        token_ids: tokens generated in this step; empty during prefill.
        computed_tokens: prompt tokens computed in this step (the salt's included).
        cached_tokens: prompt tokens taken from the cache, without the salt's; known from the
            sequence's first step on, the same in each.
        finished: the length is reached and the engine has let go of the sequence.
    """

    sequence_id: int
    token_ids: tuple[int, ...]
    computed_tokens: int
    cached_tokens: int
    finished: bool


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The state of the engine's key-value cache, in blocks of `block_tokens` tokens."""

    blocks_total: int
    blocks_used: int
    evictions_total: int
    warm_sessions: int


class Engine(Protocol):
    """Batched generation with a prefix cache. All calls come from the thread that owns it."""

    def has_room_for(self, spec: SequenceSpec) -> bool:
        """Whether `add` may be called now; an idle engine has room for any valid sequence."""
        ...

    def add(self, spec: SequenceSpec) -> None:
        """Take a sequence; it takes part from the next step on."""
        ...

    def release(self, sequence_id: int) -> None:
        """Let go of an unfinished sequence: no step computes it, its blocks stay reusable."""
        ...

    def step(self) -> Sequence[StepOutput]:
        """Compute one batch: a token for each decoding sequence, a bounded share of prefill.

        Raises:
            Exception: the engine is broken and must be replaced; all it held is lost.
        """
        ...

    def cache_report(self) -> CacheReport:
        """The cache as of the last step."""
        ...

    def close(self) -> None:
        """Let go of everything; the engine is not used again."""
        ...
