"""Drain and undrain: what is asked for, what is refused, and why.

Pure. The rule: taking capacity away is harder than giving it. A drain must leave every pool its
floor and may move only a share of its warm sessions per minute, each of which costs a cold prefill
elsewhere; what is not known counts as the worst. `force` says that somebody knows better.
"""

import msgspec

from .fleet_state import (
    EVICTION_WINDOW_S,
    Drained,
    Draining,
    Eviction,
    FleetState,
    Ramping,
    Situation,
)
from .topology import Pool, Replica


class PlacementError(ValueError):
    """A drain or undrain that cannot be done; the message says what, limit, actual, next step."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnknownSlotError(PlacementError):
    """The topology has no such slot."""


class RefusedError(PlacementError):
    """It would hurt; `reason` is `floor`, `warm_sessions`, `load_unknown` or `document`."""


def drain(
    situation: Situation, slot: str, *, force: bool = False, deadline_s: float | None = None
) -> FleetState:
    """The state with `slot` draining for at most `deadline_s` (None: the topology's default).

    Asked again, it keeps a drain in progress and takes a deadline that is given. Raises
    UnknownSlotError and RefusedError.
    """
    _replica(situation, slot)
    record, now_s = situation.record(slot), situation.now_s
    if isinstance(record, Drained):
        return situation.state
    if isinstance(record, Draining):
        return situation.with_record(slot, _renewed(record, force, deadline_s, now_s))
    if not force:
        for pool in situation.topology.pools:
            if slot in pool.slots:
                _check_floor(situation, pool, slot)
                _check_warm_sessions(situation, pool, slot)
    limit_s = situation.topology.drain.deadline_s if deadline_s is None else deadline_s
    load = situation.load(slot)
    eviction = Eviction(now_s, slot, load.warm_sessions if load else None)
    return msgspec.structs.replace(
        situation.with_record(slot, Draining(now_s, now_s + limit_s, is_forced=force)),
        evictions=(*situation.state.evictions, eviction),
    )


def _renewed(record: Draining, force: bool, deadline_s: float | None, now_s: float) -> Draining:
    deadline_at_s = record.deadline_at_s if deadline_s is None else now_s + deadline_s
    return msgspec.structs.replace(
        record, deadline_at_s=deadline_at_s, is_forced=record.is_forced or force
    )


def undrain(situation: Situation, slot: str) -> FleetState:
    """The state with `slot` on its way back, by the ramp; one that serves is left alone.

    Raises UnknownSlotError, and RefusedError where the topology document itself drains the slot.
    """
    if _replica(situation, slot).state == "draining":
        raise RefusedError(
            "document",
            f"{slot} must be serving in the topology document, which says draining; "
            "change its state there, and it comes back by itself",
        )
    if isinstance(situation.record(slot), Draining | Drained):
        return situation.with_record(slot, Ramping())
    return situation.state


def _check_floor(situation: Situation, pool: Pool, slot: str) -> None:
    """Refuse to leave `pool` fewer serving, ready replicas than its floor."""
    others = [replica.slot for replica in situation.serving(pool) if replica.slot != slot]
    left = sum(situation.is_ready(other) for other in others)
    if left < pool.floor:
        raise RefusedError(
            "floor",
            f"draining {slot} must leave pool {pool.name} its floor of {pool.floor} serving and "
            f"ready replicas, and would leave {left}; add or undrain a replica, lower the "
            "pool's floor in the topology, or force it",
        )


def _check_warm_sessions(situation: Situation, pool: Pool, slot: str) -> None:
    """Refuse to move more of the pool's warm sessions within a minute than its share."""
    load = situation.load(slot)
    recent = [
        eviction.sessions
        for eviction in situation.state.evictions
        if eviction.slot in pool.slots and situation.now_s - eviction.at_s < EVICTION_WINDOW_S
    ]
    if load is None or None in recent:
        raise RefusedError(
            "load_unknown",
            f"draining {slot} needs the number of warm sessions that are moved within a minute, "
            "and a report of it is missing; wait a minute and see that the replica answers GET "
            "/load, or force it",
        )
    share = situation.topology.drain.warm_share_per_minute
    # A replica that does not report counts as one without any: the total is never overstated.
    loads = [situation.load(replica.slot) for replica in situation.serving(pool)]
    total = sum(each.warm_sessions for each in loads if each)
    before = sum(sessions or 0 for sessions in recent)
    if before + load.warm_sessions > share * total:
        after = f" after {before} within the last minute" if before else ""
        raise RefusedError(
            "warm_sessions",
            f"draining {slot} may move {int(share * total)} warm sessions per minute "
            f"({share:.0%} of the {total} of pool {pool.name}), and would move "
            f"{load.warm_sessions}{after}; wait until fewer are warm, spread them over more "
            "replicas, raise drain.warm_share_per_minute in the topology, or force it",
        )


def _replica(situation: Situation, slot: str) -> Replica:
    replicas = situation.topology.replicas
    for replica in replicas:
        if replica.slot == slot:
            return replica
    known = ", ".join(sorted(replica.slot for replica in replicas))
    raise UnknownSlotError(
        "unknown_slot", f"a slot must be one of {known}, got {slot[:64]!r}; name one of these"
    )
