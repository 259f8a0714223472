"""The fleet in force: holds document, state and reports, and publishes what follows from them.

Decisions are `drains`, `effective` and `load_bound`; this keeps their results and hands in the
time. The rule: what somebody asked for is on disk before Envoy hears of it.
"""

import logging

import msgspec

from . import drains
from .consistency import check
from .effective import advance, effective_topology, first_bound, in_flight_of
from .fleet_state import Drained, Draining, FleetState, Observation, Situation, first_state
from .load_bound import PoolBound, observe
from .server import Publisher
from .snapshot import Snapshot, build_snapshot
from .state_file import StateError, StateFile
from .topology import LoadBound, Topology
from .topology_source import TopologyFile

log = logging.getLogger(__name__)


class Fleet:
    """What is asked of it is done at `now_s`, seconds since 1970.

    `state_error` says why the state is not on disk, or not the newest; empty when all is well.
    """

    def __init__(self, source: TopologyFile, file: StateFile, now_s: float) -> None:
        """Raises StateError where there is a state and it cannot be read."""
        self.source = source
        self._file = file
        self._saved = file.load()
        self.state = self._saved or first_state(source.topology)
        self.state_error, self.state_errors_total = file.note, int(bool(file.note))
        if file.note:
            log.error("%s", file.note)
        self.drains_total = {"accepted": 0, "forced": 0, "refused": 0}
        self.observations: dict[str, Observation] = {}
        self.bounds: dict[str, PoolBound] = {}
        self._sync_bounds(now_s)
        self.state = advance(self.situation(now_s), is_accepted=False)
        self.effective = effective_topology(self.situation(now_s))
        self.publisher = Publisher(_build(self.effective))

    @property
    def topology(self) -> Topology:
        """The document in force; `effective` is what Envoy is given."""
        return self.source.topology

    def situation(self, now_s: float) -> Situation:
        """What decisions look at."""
        return Situation(self.topology, self.state, self.observations, now_s)

    def tick(self, *, is_accepted: bool, now_s: float) -> None:
        """Follow the document, the reports and the time; publish what changed."""
        self.source.poll()
        self.state = advance(self.situation(now_s), is_accepted=is_accepted)
        self._publish(now_s)
        self._save_or_note()

    def observed(self, observations: dict[str, Observation], *, envoys: int, now_s: float) -> None:
        """Take one look at all replicas; `envoys` is how many share the load."""
        self.observations = observations
        self._sync_bounds(now_s)
        bound = self.topology.hash_balance_factor
        if not isinstance(bound, LoadBound):
            return
        situation = self.situation(now_s)
        for pool in self.topology.pools:
            in_flight = in_flight_of(situation, pool, envoys)
            self.bounds[pool.name] = observe(self.bounds[pool.name], bound, in_flight, now_s)
        factors = {name: bound.factor for name, bound in self.bounds.items()}
        self.state = msgspec.structs.replace(self.state, factors=factors)

    def drain(self, slot: str, *, force: bool, deadline_s: float | None, now_s: float) -> None:
        """Drain `slot`; raises `drains.PlacementError`, and StateError with nothing changed."""
        try:
            state = drains.drain(self.situation(now_s), slot, force=force, deadline_s=deadline_s)
        except drains.RefusedError:
            self.drains_total["refused"] += 1
            raise
        was_draining = isinstance(self.state.slots.get(slot), Draining | Drained)
        self._ask(state, now_s)
        if not was_draining:
            self.drains_total["forced" if force else "accepted"] += 1
            log.info("%s drains (forced: %s)", slot, force)

    def undrain(self, slot: str, *, now_s: float) -> None:
        """Let `slot` come back; raises as `drain` does."""
        self._ask(drains.undrain(self.situation(now_s), slot), now_s)

    def _ask(self, state: FleetState, now_s: float) -> None:
        if state != self.state:
            self._save(state)
            self.state = state
        self._publish(now_s)

    def _publish(self, now_s: float) -> None:
        effective = effective_topology(self.situation(now_s))
        if effective != self.effective:
            self.effective = effective
            self.publisher.publish(_build(effective))

    def _sync_bounds(self, now_s: float) -> None:
        """One bound a pool, new ones from the factor in force."""
        situation = self.situation(now_s)
        self.bounds = {
            pool.name: self.bounds.get(pool.name) or first_bound(situation, pool)
            for pool in self.topology.pools
        }

    def _save_or_note(self) -> None:
        """Save what follows from time and reports; where that fails, go on and say so once."""
        if self.state == self._saved:
            return
        try:
            self._save(self.state)
        except StateError as error:
            if str(error) != self.state_error:
                self.state_error = str(error)
                self.state_errors_total += 1
                log.error("%s", error)  # noqa: TRY400 - its message says all

    def _save(self, state: FleetState) -> None:
        self._file.save(state)
        self._saved, self.state_error = state, ""


def _build(topology: Topology) -> Snapshot:
    snapshot = build_snapshot(topology)
    check(snapshot)
    return snapshot
