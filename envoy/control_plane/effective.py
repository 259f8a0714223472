"""From topology document, state, reports and time to the topology that Envoy is given.

Pure. `advance` moves the state on; `effective_topology` applies it. The rule: the document says
what exists and is never contradicted; the state only takes weight or streams away from a slot.
"""

import msgspec

from .fleet_state import (
    EVICTION_WINDOW_S,
    Drained,
    Draining,
    FleetState,
    Ramping,
    Serving,
    Situation,
    SlotRecord,
)
from .load_bound import PoolBound
from .ramp import is_over, percent_at, weight_at
from .topology import LoadBound, Pool, Replica, Topology

# A stream that Envoy placed just before it accepted the drain may reach the replica this much
# later.
QUIET_S = 1.0


def advance(situation: Situation, *, is_accepted: bool) -> FleetState:
    """The state at `now_s`; `is_accepted`: every Envoy serves by the snapshot in force.

    Slots that the document dropped are forgotten, so one that comes back is an added one.
    """
    slots = {
        replica.slot: _advance_slot(situation, replica, is_accepted)
        for replica in situation.topology.replicas
    }
    evictions = tuple(
        eviction
        for eviction in situation.state.evictions
        if situation.now_s - eviction.at_s < EVICTION_WINDOW_S
    )
    return msgspec.structs.replace(situation.state, slots=slots, evictions=evictions)


def _advance_slot(situation: Situation, replica: Replica, is_accepted: bool) -> SlotRecord:
    record = situation.record(replica.slot)
    if isinstance(record, Draining):
        return _advance_drain(situation, replica.slot, record, is_accepted)
    if isinstance(record, Drained):
        return record
    if record is None or replica.state == "draining":
        return Ramping()  # added; or from when the document lets it serve again
    if isinstance(record, Ramping):
        return _advance_ramp(situation, replica.slot, record)
    return record


def _advance_ramp(situation: Situation, slot: str, record: Ramping) -> SlotRecord:
    if record.began_at_s is None:
        return Ramping(situation.now_s) if situation.is_ready(slot) else record
    is_done = is_over(situation.topology.ramp, record.began_at_s, situation.now_s)
    return Serving() if is_done else record


def _advance_drain(
    situation: Situation, slot: str, record: Draining, is_accepted: bool
) -> SlotRecord:
    """Drained when it was quiet for `QUIET_S`, or at its deadline; unknown load is not quiet.

    The time of the report counts, not now: it must have been made after the quiet began.
    """
    now_s, load = situation.now_s, situation.load(slot)
    since_s = None
    if is_accepted and load is not None and load.in_flight == 0:
        since_s = now_s if record.quiet_since_s is None else record.quiet_since_s
        if situation.observations[slot].at_s - since_s >= QUIET_S:
            return Drained(record.requested_at_s, now_s, "finish")
    if now_s >= record.deadline_at_s:
        left = None if load is None else load.in_flight
        return Drained(record.requested_at_s, now_s, "deadline", left)
    return msgspec.structs.replace(record, quiet_since_s=since_s)


def effective_topology(situation: Situation) -> Topology:
    """The document with the states, weights and factors in force at `now_s`."""
    topology = situation.topology
    pools = tuple(
        msgspec.structs.replace(pool, hash_balance_factor=factor_of(situation, pool))
        for pool in topology.pools
    )
    replicas = tuple(_effective_replica(situation, replica) for replica in topology.replicas)
    return msgspec.structs.replace(topology, replicas=replicas, pools=pools)


def _effective_replica(situation: Situation, replica: Replica) -> Replica:
    match situation.record(replica.slot):
        case Draining() | Drained():
            return msgspec.structs.replace(replica, state="draining")
        case Ramping(began_at_s=began_at_s):
            percent = percent_at(situation.topology.ramp, began_at_s, situation.now_s)
            return msgspec.structs.replace(replica, weight=weight_at(replica.weight, percent))
    return replica


def factor_of(situation: Situation, pool: Pool) -> float:
    """The pool's own factor, else the document's number, else what its load asked for last."""
    if pool.hash_balance_factor is not None:
        return pool.hash_balance_factor
    bound = situation.topology.hash_balance_factor
    if not isinstance(bound, LoadBound):
        return bound
    last = situation.state.factors.get(pool.name, bound.quiet)
    return min(bound.quiet, max(bound.busy, last))


def in_flight_of(situation: Situation, pool: Pool, envoys: int) -> float | None:
    """Requests in flight per serving replica and Envoy; None where no load is known.

    A replica reports one load for all the pools that it serves, so pools that share replicas are
    all judged by the whole.
    """
    reports = [situation.load(replica.slot) for replica in situation.serving(pool)]
    loads = [load.in_flight for load in reports if load is not None]
    if not loads:
        return None
    return sum(loads) / len(loads) / max(1, envoys)


def first_bound(situation: Situation, pool: Pool) -> PoolBound:
    """A pool's bound as the control plane starts: the last factor, held for a while."""
    return PoolBound(factor_of(situation, pool), changed_at_s=situation.now_s)
