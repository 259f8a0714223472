"""The two-sample Kolmogorov-Smirnov test: do two samples come from one distribution? Pure.

The statistic is the largest distance between the two empirical distribution functions. Its limit
for large samples is N. V. Smirnov's, "Table for estimating the goodness of fit of empirical
distributions", Annals of Mathematical Statistics 19 (1948), pages 279 to 281.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_TERMS_MAX = 100
_SERIES_FROM = 0.2
"""Below, the tail is 1 to more digits than a float has, and the series converges slowly."""


@dataclass(frozen=True)
class Verdict:
    """What the test says: the distance, the distance from which it rejects, and the p-value."""

    distance: float
    critical: float
    p_value: float

    @property
    def differs(self) -> bool:
        """Whether the samples are taken to come from different distributions."""
        return self.distance > self.critical


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference of the two empirical distribution functions, 0 to 1.

    Raises ValueError when a sample is empty.
    """
    if not a or not b:
        raise ValueError(f"two samples are compared; got {len(a)} and {len(b)} values")
    left, right = sorted(a), sorted(b)
    i = j = 0
    largest = 0.0
    while i < len(left) and j < len(right):
        value = min(left[i], right[j])
        while i < len(left) and left[i] == value:
            i += 1
        while j < len(right) and right[j] == value:
            j += 1
        largest = max(largest, abs(i / len(left) - j / len(right)))
    return largest


def _scale(a_count: int, b_count: int) -> float:
    return math.sqrt(a_count * b_count / (a_count + b_count))


def critical_distance(alpha: float, a_count: int, b_count: int) -> float:
    """The distance that equal distributions exceed with probability `alpha`, for large samples.

    From the first term of Smirnov's series, alpha = 2 exp(-2 x^2); the next is below alpha^4 / 8.
    """
    return math.sqrt(-math.log(alpha / 2) / 2) / _scale(a_count, b_count)


def tail(x: float) -> float:
    """Smirnov's limit: probability that the scaled distance of equal distributions exceeds `x`."""
    if x < _SERIES_FROM:
        return 1.0
    terms = (math.exp(-2 * k * k * x * x) * (1 if k % 2 else -1) for k in range(1, _TERMS_MAX))
    return min(1.0, max(0.0, 2 * sum(terms)))


def compare(a: Sequence[float], b: Sequence[float], alpha: float) -> Verdict:
    """The test at level `alpha`."""
    found = distance(a, b)
    critical = critical_distance(alpha, len(a), len(b))
    return Verdict(found, critical, tail(found * _scale(len(a), len(b))))


def smallest_shift_seen(values: Sequence[float], other: Sequence[float], alpha: float) -> float:
    """How much lower all of `values` would have to be for the test to reject: its sensitivity.

    In the values' unit, to a thousandth of their range; infinite where no shift within it does.
    """
    span = max(*values, *other) - min(*values, *other)
    for step in range(1001):
        shift = span * step / 1000
        if compare([value - shift for value in values], other, alpha).differs:
            return shift
    return math.inf
