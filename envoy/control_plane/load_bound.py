"""The bounded-load factor: how far above its share a slot may be loaded, by measured concurrency.

Pure. The rule: it changes seldom. A change is a CDS update, for which Envoy builds the cluster
anew, connects again and counts live streams from zero; so the factor has `LEVELS` values, moves
only when the load has clearly left a level's range, and then stays for `HOLD_S`.

Simulated (`test_load_bound`): load that is noise around a border (20 in flight, standard deviation
8, each second anew) changes the factor 3 to 7 times an hour, with a half-life of 10 s instead 33 to
47 times; a rise from 4 to 60 is followed in 17 s to the next level and in 47 s to the last.

Why it follows load at all: the bound compares live counts, and few streams are uneven by chance.
Simulated with 20 replicas at factor 1.25, chance alone spilled 11 % of the requests at 2 to 4 in
flight per replica, 8 % at 8 and 1 % at 40; at factor 2.0, 2 % or less.
"""

import math
from dataclasses import dataclass
from typing import Final

from .topology import LoadBound

LEVELS: Final = 4
HOLD_S: Final = 30.0
_HALF_LIFE_S: Final = 30.0
# In steps between levels. Half a step is where the next level is as near as this one; the other
# quarter is the hysteresis.
_KEPT_WITHIN: Final = 0.75


@dataclass(frozen=True, slots=True)
class PoolBound:
    """One pool's factor in force, and the smoothed load that it is judged by.

    `in_flight` is requests in flight per replica and Envoy, None before the first report;
    `changed_at_s` starts the hold.
    """

    factor: float
    changed_at_s: float
    in_flight: float | None = None
    observed_at_s: float = 0.0


def exact_factor(bound: LoadBound, in_flight: float) -> float:
    """The factor for a load: `quiet` below, `busy` above, a line between."""
    way = (in_flight - bound.quiet_below) / (bound.busy_above - bound.quiet_below)
    return bound.quiet + (bound.busy - bound.quiet) * min(1.0, max(0.0, way))


def next_factor(bound: LoadBound, current: float, in_flight: float) -> float:
    """The level for a load, seen from the factor in force."""
    step = (bound.quiet - bound.busy) / (LEVELS - 1)
    exact = exact_factor(bound, in_flight)
    if abs(exact - current) <= _KEPT_WITHIN * step and bound.busy <= current <= bound.quiet:
        return current
    return round(bound.busy + round((exact - bound.busy) / step) * step, 2)


def observe(
    previous: PoolBound, bound: LoadBound, in_flight: float | None, now_s: float
) -> PoolBound:
    """The state after one look at the load; None where no replica's load is known."""
    if in_flight is None:
        return previous
    smooth = _smoothed(previous, in_flight, now_s)
    factor, changed_at_s = previous.factor, previous.changed_at_s
    if now_s - changed_at_s >= HOLD_S:
        factor = next_factor(bound, previous.factor, smooth)
        changed_at_s = changed_at_s if factor == previous.factor else now_s
    return PoolBound(factor, changed_at_s, smooth, now_s)


def _smoothed(previous: PoolBound, in_flight: float, now_s: float) -> float:
    """An exponential mean: what was seen `_HALF_LIFE_S` ago counts half."""
    if previous.in_flight is None:
        return in_flight
    elapsed_s = max(0.0, now_s - previous.observed_at_s)
    kept = math.exp2(-elapsed_s / _HALF_LIFE_S)
    return kept * previous.in_flight + (1 - kept) * in_flight
