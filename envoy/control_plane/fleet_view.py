"""What `/status` and `/v1/replicas` show of the fleet, as JSON data. Pure."""

from collections.abc import Mapping
from typing import Any

from .fleet_state import Drained, Draining, Ramping, Situation
from .load_bound import PoolBound
from .ramp import percent_at
from .topology import Replica, Topology

STATES = ("serving", "draining", "drained")


def state_of(situation: Situation, replica: Replica) -> str:
    """One of `STATES`; what the document drains is draining for good. A ramping slot serves."""
    match situation.record(replica.slot):
        case Draining():
            return "draining"
        case Drained():
            return "drained"
    return replica.state


def is_ramping(situation: Situation, replica: Replica) -> bool:
    """Whether a slot serves, and is not at its full weight yet."""
    return isinstance(situation.record(replica.slot), Ramping) and replica.state == "serving"


def describe_slots(situation: Situation, effective: Topology) -> list[dict[str, Any]]:
    """One object for each slot, in the document's order; null is what is not known."""
    weights = {replica.slot: replica.weight for replica in effective.replicas}
    return [
        {
            "slot": replica.slot,
            "state": state_of(situation, replica),
            "weight": weights.get(replica.slot, replica.weight),
            "full_weight": replica.weight,
            "pools": [p.name for p in situation.topology.pools if replica.slot in p.slots],
            **_observed(situation, replica.slot),
            "drain": _drain(situation, replica.slot),
            "ramp": _ramp(situation, replica),
        }
        for replica in situation.topology.replicas
    ]


def _observed(situation: Situation, slot: str) -> dict[str, Any]:
    observed, load = situation.observations.get(slot), situation.load(slot)
    return {
        "ready": observed.is_ready if observed else None,
        "live_sequences": load.live_sequences if load else None,
        "waiting_sequences": load.waiting_sequences if load else None,
        "warm_sessions": load.warm_sessions if load else None,
        "observed_s_ago": _ago(situation, observed.at_s) if observed else None,
    }


def _drain(situation: Situation, slot: str) -> dict[str, Any] | None:
    match situation.record(slot):
        case Draining() as draining:
            return {
                "since_s": _ago(situation, draining.requested_at_s),
                "seconds_left": _left(situation, draining.deadline_at_s),
                "forced": draining.is_forced,
            }
        case Drained() as drained:
            return {
                "since_s": _ago(situation, drained.requested_at_s),
                "took_s": round(drained.drained_at_s - drained.requested_at_s, 1),
                "ended_by": drained.by,
                "sequences_left": drained.left,
            }
    return None


def _ramp(situation: Situation, replica: Replica) -> dict[str, Any] | None:
    record, ramp = situation.record(replica.slot), situation.topology.ramp
    if not isinstance(record, Ramping) or replica.state == "draining":
        return None
    begun = record.began_at_s
    return {
        "percent": percent_at(ramp, begun, situation.now_s),
        "begun": begun is not None,
        "seconds_left": _left(
            situation, (situation.now_s if begun is None else begun) + ramp.duration_s
        ),
    }


def _ago(situation: Situation, at_s: float) -> float:
    return round(situation.now_s - at_s, 1)


def _left(situation: Situation, end_at_s: float) -> float:
    return round(max(0.0, end_at_s - situation.now_s), 1)


def describe_pools(
    situation: Situation, effective: Topology, bounds: Mapping[str, PoolBound]
) -> list[dict[str, Any]]:
    """One object for each pool; `in_flight` is smoothed, per serving replica and Envoy.

    It is null before the first report, and where the factor is fixed.
    """
    return [
        {
            "pool": pool.name,
            "slots": list(pool.slots),
            "serving": [replica.slot for replica in situation.serving(pool)],
            "floor": pool.floor,
            "hash_balance_factor": pool.hash_balance_factor,
            "in_flight": _in_flight(bounds.get(pool.name)),
        }
        for pool in effective.pools
    ]


def _in_flight(bound: PoolBound | None) -> float | None:
    return None if bound is None or bound.in_flight is None else round(bound.in_flight, 1)
