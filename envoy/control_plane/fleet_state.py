"""What the control plane knows of the slots beyond the topology document, as immutable values.

Owns the types, which are also the state file's format. The rule: times are seconds since 1970, so
that a drain, a ramp and the window of moved sessions go on over a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec

from .topology import Name, Pool, Replica, Strict, Topology

STATE_VERSION: Final = 1
EVICTION_WINDOW_S: Final = 60.0

EpochSeconds = Annotated[float, msgspec.Meta(ge=0.0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Serving(Strict, frozen=True, tag_field="state", tag="serving"):
    """At full weight."""


class Ramping(Strict, frozen=True, tag_field="state", tag="ramping"):
    """Added or returned; the ramp begins when the replica is first ready."""

    began_at_s: EpochSeconds | None = None


class Draining(Strict, frozen=True, tag_field="state", tag="draining"):
    """Gets no new stream; `quiet_since_s` is when it was first seen without any."""

    requested_at_s: EpochSeconds
    deadline_at_s: EpochSeconds
    is_forced: bool = False
    quiet_since_s: EpochSeconds | None = None


class Drained(Strict, frozen=True, tag_field="state", tag="drained"):
    """May be stopped. `left` is how many sequences the deadline cut off, None where unknown."""

    requested_at_s: EpochSeconds
    drained_at_s: EpochSeconds
    by: Literal["finish", "deadline"]
    left: Count | None = 0


SlotRecord = Serving | Ramping | Draining | Drained


class Eviction(Strict, frozen=True):
    """Warm sessions that a drain moved away from a slot; None: unknown, all of the pool's."""

    at_s: EpochSeconds
    slot: Name
    sessions: Count | None


class FleetState(Strict, frozen=True):
    """The state file. `factors` are the bounded-load factors in force, by pool."""

    state_version: Literal[1]
    slots: dict[Name, SlotRecord]
    evictions: tuple[Eviction, ...] = ()
    factors: dict[Name, float] = msgspec.field(default_factory=dict)


class ReplicaLoad(msgspec.Struct, frozen=True):
    """What is read of a replica's /load; its other fields are not looked at."""

    live_sequences: Count
    waiting_sequences: Count
    warm_sessions: Count

    @property
    def in_flight(self) -> int:
        """Sequences that would be lost if the replica stopped now."""
        return self.live_sequences + self.waiting_sequences


class Observation(msgspec.Struct, frozen=True):
    """One look at a replica: whether /healthz said 200, and its load where it could be read."""

    at_s: float
    is_ready: bool
    load: ReplicaLoad | None


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a decision looks at; `now_s` is seconds since 1970."""

    topology: Topology
    state: FleetState
    observations: Mapping[str, Observation]
    now_s: float

    def record(self, slot: str) -> SlotRecord | None:
        """What is known of a slot; None for one that was just added."""
        return self.state.slots.get(slot)

    def load(self, slot: str) -> ReplicaLoad | None:
        """The last report of a slot, None where it is unknown."""
        observed = self.observations.get(slot)
        return observed.load if observed else None

    def is_ready(self, slot: str) -> bool:
        """Whether a slot's last health answer was good."""
        observed = self.observations.get(slot)
        return observed is not None and observed.is_ready

    def serving(self, pool: Pool) -> list[Replica]:
        """The replicas of a pool that new streams may go to."""
        return [
            replica
            for replica in self.topology.replicas
            if replica.slot in pool.slots
            and replica.state == "serving"
            and not isinstance(self.record(replica.slot), Draining | Drained)
        ]

    def with_record(self, slot: str, record: SlotRecord) -> FleetState:
        """The state with another record for one slot."""
        slots = {**self.state.slots, slot: record}
        return msgspec.structs.replace(self.state, slots=slots)


def first_state(topology: Topology) -> FleetState:
    """The state of a fleet that was never seen before: every slot at full weight."""
    slots: dict[str, SlotRecord] = {replica.slot: Serving() for replica in topology.replicas}
    return FleetState(STATE_VERSION, slots)
