"""Placement: how a session key becomes a slot, and how far load may bend that.

Owns the load-balancing policies. The rule: a session moves only when its own slot comes, goes or
is over its bound.

Maglev hashing is the default (D. Eisenbud et al., "Maglev", NSDI 2016). Envoy's ring hash breaks
the rule: it spreads a fixed number of points over the healthy hosts, so each of them gets new
points whenever one goes. Measured on Envoy 1.40 with four slots and 1,500 sessions, of the
sessions whose own slot stayed, this share moved to another one:

    change                      ring hash (4,096 points)   Maglev (65,537 entries)
    one slot drained                     10.1 %                    0.07 %
    one slot killed (of five)             9.0 %                    0.07 %
    a fifth slot added                   11.1 %                    0.07 %
    weight of one 10 -> 30 %              3.0 %                    0

A ramp from 10 to 100 % in steps of 10 (see `ramp`) moves this share of all sessions at each weight,
all but the last line to the ramping slot (`tests/component/envoy/measure_ramp.py`):

    weight, percent              10   20   30   40   50   60   70   80   90  100
    beside one other slot       9.6  8.7  5.7  5.7  4.2  3.5  3.5  3.3  2.7  3.1 %
    beside four                 2.5  1.9  2.6  1.8  2.5  2.2  1.8  1.7  2.0  1.7 %
    between others, all steps   0 beside one, 0.35 % beside four
"""

from typing import Final

# The messages must be known to protobuf's pool before `resources.encode` can write them.
from envoy.extensions.load_balancing_policies.maglev.v3 import maglev_pb2 as _maglev
from envoy.extensions.load_balancing_policies.ring_hash.v3 import ring_hash_pb2 as _ring_hash
from envoy.extensions.load_balancing_policies.round_robin.v3 import round_robin_pb2 as _round_robin

from .resources import Json
from .topology import Placement

REGISTERED: Final = (_maglev, _ring_hash, _round_robin)

_PACKAGE: Final = "type.googleapis.com/envoy.extensions.load_balancing_policies"

_POLICIES: Final[dict[Placement, Json]] = {
    "maglev": {"@type": f"{_PACKAGE}.maglev.v3.Maglev"},
    "ring_hash": {"@type": f"{_PACKAGE}.ring_hash.v3.RingHash", "minimum_ring_size": 4096},
    "round_robin": {"@type": f"{_PACKAGE}.round_robin.v3.RoundRobin"},
}


def bounded(placement: Placement, hash_balance_factor: float) -> Json:
    """The policy of a pool.

    `hash_balance_factor` is what a slot may carry as a multiple of its share of all live streams;
    Envoy places a stream elsewhere while the slot has more than
    `ceil((all + 1) * factor * share)` (consistent hashing with bounded loads, Mirrokni et al.,
    2016). Round robin has no places, so no bound: it is there to measure affinity against.
    """
    if placement == "round_robin":
        return _policy(placement, {})
    bound = {"hash_balance_factor": round(hash_balance_factor * 100)}
    return _policy(placement, {"consistent_hashing_lb_config": bound})


def unbounded() -> Json:
    """The policy of the orchestrator's workers.

    No bound there: identical requests in flight at once must meet in one worker to be coalesced.
    """
    return _policy("maglev", {})


def _policy(placement: Placement, more: Json) -> Json:
    extension = {
        "name": f"envoy.load_balancing_policies.{placement}",
        "typed_config": _POLICIES[placement] | more,
    }
    return {"policies": [{"typed_extension_config": extension}]}
