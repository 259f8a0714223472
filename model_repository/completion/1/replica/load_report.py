"""What the replica tells about its load: counters, and decayed quantiles of measured rates.

The loop's thread writes; any thread reads the last published `LoadReport`, which is immutable.
"""

import math
from dataclasses import dataclass

from replica.engine import StepOutput
from replica.stop_rule import FinishReason

_BUCKETS_PER_DOUBLING = 8
_BUCKETS = 40 * _BUCKETS_PER_DOUBLING
_WEIGHT_MAX = 1e12


class DecayedQuantile:
    """A quantile over recent positive values, whose weight halves every `half_life` values.

    Values fall into buckets 9 % wide (8 to a doubling), so the answer is within 5 %. Instead of
    decaying every bucket, each new value weighs more than the last (forward decay: Cormode,
    Shkapenyuk, Srivastava and Xu, ICDE 2009).
    """

    def __init__(self, half_life: int) -> None:
        self._growth = 2.0 ** (1.0 / half_life)
        self._weight = 1.0
        self._buckets = [0.0] * _BUCKETS

    def observe(self, value: float) -> None:
        """Add a value; everything from 1 to 2**40 is told apart."""
        bucket = int(math.log2(max(value, 1.0)) * _BUCKETS_PER_DOUBLING)
        self._buckets[min(bucket, _BUCKETS - 1)] += self._weight
        self._weight *= self._growth
        if self._weight > _WEIGHT_MAX:
            self._buckets = [weight / self._weight for weight in self._buckets]
            self._weight = 1.0

    def quantile(self, share: float) -> float:
        """The value below which `share` of the weight lies; 0 before the first value."""
        rest = share * sum(self._buckets)
        if rest <= 0:
            return 0.0
        for bucket, weight in enumerate(self._buckets):
            rest -= weight
            if rest <= 0 and weight:
                return float(2.0 ** ((bucket + 0.5) / _BUCKETS_PER_DOUBLING))
        return 0.0


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The body of GET /load, but for `engine_digest` and `stuck`, which the listener adds."""

    live_sequences: int = 0
    waiting_sequences: int = 0
    step_us: int = 0
    prefill_tokens_per_s: int = 0
    warm_sessions: int = 0
    cache_blocks_total: int = 0
    cache_blocks_used: int = 0
    cache_evictions_total: int = 0
    prompt_tokens_computed_total: int = 0
    prompt_tokens_cached_total: int = 0
    tokens_decoded_total: int = 0
    tokens_decoded_after_cancel_total: int = 0
    cancelled_total: int = 0
    finished_total: int = 0
    refused_total: int = 0
    engine_failures_total: int = 0


@dataclass(slots=True)
class Totals:
    """Counters since the start; `_total` is added to their names in the report."""

    prompt_tokens_computed: int = 0
    prompt_tokens_cached: int = 0
    tokens_decoded: int = 0
    tokens_decoded_after_cancel: int = 0
    cancelled: int = 0
    finished: int = 0
    refused: int = 0

    def count_step(self, output: StepOutput, *, is_first: bool) -> None:
        """What a step did for a sequence; its cached tokens count in its first step."""
        self.prompt_tokens_computed += output.computed_tokens
        self.prompt_tokens_cached += output.cached_tokens if is_first else 0
        self.tokens_decoded += len(output.token_ids)

    def count_end(self, reason: FinishReason, tokens_after_cancel: int) -> None:
        """A sequence ended."""
        self.finished += 1
        if reason is FinishReason.CANCELLED:
            self.cancelled += 1
            self.tokens_decoded_after_cancel += tokens_after_cancel


class StepTimes:
    """Measured pace: how long a decode step takes and how fast prompts are computed.

    A step that computes prompt tokens counts for the prefill rate alone, and only from
    `PREFILL_TOKENS_MIN` tokens on: below that its fixed cost would pass for a slow rate.
    """

    PREFILL_TOKENS_MIN = 64

    def __init__(self) -> None:
        self._step_us = DecayedQuantile(half_life=500)
        self._prefill_rate = DecayedQuantile(half_life=50)

    def observe(self, step_us: int, computed_tokens: int) -> None:
        """A step took `step_us` and computed `computed_tokens` prompt tokens."""
        if computed_tokens == 0:
            self._step_us.observe(step_us)
        elif computed_tokens >= self.PREFILL_TOKENS_MIN and step_us > 0:
            self._prefill_rate.observe(computed_tokens * 1e6 / step_us)

    def step_us(self) -> int:
        """Median of recent decode steps; 0 before the first."""
        return round(self._step_us.quantile(0.5))

    def prefill_tokens_per_s(self) -> int:
        """Median of recent prefill rates; 0 before the first."""
        return round(self._prefill_rate.quantile(0.5))
