"""The weight ramp: an added or returned slot gets its sessions in steps, so that caches warm.

Pure. The rule: a step moves sessions to the ramping slot and nowhere else (see `placement` for the
measurement), and there are few of them, because each is an EDS update to every Envoy.
"""

from .topology import Ramp


def percent_at(ramp: Ramp, began_at_s: float | None, now_s: float) -> int:
    """The share of its weight that a slot has, in percent; `began_at_s` None: not begun yet.

    From `start_percent` at once to 100 after `duration_s`, in `steps` equal steps: with the
    defaults 10, 20, ... 100 %, one step each 33 s, so 9 updates after the first.
    """
    if ramp.duration_s <= 0:
        return 100
    way = 0.0 if began_at_s is None else (now_s - began_at_s) / ramp.duration_s
    done = min(ramp.steps, max(0, int(way * ramp.steps)))
    return ramp.start_percent + (100 - ramp.start_percent) * done // ramp.steps


def is_over(ramp: Ramp, began_at_s: float, now_s: float) -> bool:
    """Whether a ramp has reached the full weight."""
    return now_s - began_at_s >= ramp.duration_s


def weight_at(weight: int, percent: int) -> int:
    """A weight's share, at least 1: Envoy knows no weight of none."""
    return max(1, weight * percent // 100)
