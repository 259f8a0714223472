"""What this worker knows of the replica slots, as one immutable snapshot. Pure.

Three sources feed it: each replica's `/healthz` and `/load`, and, where it is configured, the
control plane's `/status` (states and weights). The rule: every reading gives a new `Fleet`, so
whoever holds one sees one moment. All times are milliseconds on the worker's monotonic clock.

Trouble that a replica tells itself counts at once, as it does for Envoy: nobody listens, or it says
that it is not healthy. Silence counts by age, because one lost answer says nothing: a slot that has
not reported for `FULL_AFTER_MS` counts as full, after `GONE_AFTER_MS` as gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

POLL_INTERVAL_MS = 1_000
FULL_AFTER_MS = 3_000
GONE_AFTER_MS = 10_000
NEVER_MS = float("-inf")

_TAKEN_OUT = frozenset({"draining", "drained"})


class Standing(StrEnum):
    """What a slot counts as, for whoever decides on load."""

    LIVE = "live"
    FULL = "full"
    GONE = "gone"


class ReplicaLoad(msgspec.Struct, frozen=True):
    """The part of a replica's `/load` that a worker decides on; unknown fields are ignored."""

    live_sequences: int
    waiting_sequences: int
    step_us: int
    prefill_tokens_per_s: int
    warm_sessions: int
    prompt_tokens_computed_total: int
    engine_failures_total: int = 0


class Refused(msgspec.Struct, frozen=True):
    """The replica says itself that it cannot serve, or nobody listens: `said` for operators."""

    said: str


class Silent(msgspec.Struct, frozen=True):
    """No answer in time, or none that makes sense: `said` for operators."""

    said: str


Heard = ReplicaLoad | Refused | Silent


class PublishedSlot(msgspec.Struct, frozen=True):
    """One slot as the control plane publishes it (docs/envoy.md)."""

    slot: str
    state: str
    weight: int = 100


class Slot(msgspec.Struct, frozen=True):
    """One slot: its last reading, and when each kind of change was last noticed.

    `trouble` is empty while its latest reading was good. `asked_ms` is when that reading began.
    """

    name: str
    trouble: str = "not asked yet"
    refused: bool = True
    asked_ms: float = NEVER_MS
    reported_ms: float = NEVER_MS
    load: ReplicaLoad | None = None
    published: PublishedSlot | None = None
    is_drained: bool = False
    drained_ms: float = NEVER_MS
    down_ms: float = NEVER_MS
    replaced_ms: float = NEVER_MS
    """A process or engine with an empty cache took the place."""
    gained_ms: float = NEVER_MS
    """It came, came back or got more weight: it may draw sessions."""
    lost_ms: float = NEVER_MS
    """It got less weight: sessions may leave it."""

    def standing(self, now_ms: float) -> Standing:
        """What it counts as now."""
        age_ms = now_ms - self.reported_ms
        if self.refused or age_ms > GONE_AFTER_MS:
            return Standing.GONE
        return Standing.LIVE if age_ms <= FULL_AFTER_MS else Standing.FULL

    def is_away(self) -> bool:
        """Whether nothing new should be placed on it, as far as is known."""
        return bool(self.trouble) or self.is_drained

    def after(self, heard: Heard, asked_ms: float, now_ms: float) -> Slot:
        """The slot after a reading that began at `asked_ms`."""
        if isinstance(heard, ReplicaLoad):
            return msgspec.structs.replace(
                self,
                trouble="",
                refused=False,
                asked_ms=asked_ms,
                reported_ms=now_ms,
                load=heard,
                gained_ms=now_ms if self.trouble else self.gained_ms,
                replaced_ms=now_ms if _is_another(self.load, heard) else self.replaced_ms,
            )
        return msgspec.structs.replace(
            self,
            trouble=heard.said,
            refused=isinstance(heard, Refused),
            asked_ms=asked_ms,
            down_ms=self.down_ms if self.trouble else now_ms,
        )

    def as_published(self, published: PublishedSlot | None, now_ms: float) -> Slot:
        """The slot after the control plane was read; None: it does not list the slot."""
        before = self.published
        is_drained = published is None or published.state in _TAKEN_OUT
        old, new = (0 if each is None else each.weight for each in (before, published))
        first = before is None and not self.is_drained
        came_back = self.is_drained and not is_drained
        return msgspec.structs.replace(
            self,
            published=published,
            is_drained=is_drained,
            drained_ms=now_ms if is_drained and not self.is_drained else self.drained_ms,
            gained_ms=now_ms if came_back or (new > old and not first) else self.gained_ms,
            lost_ms=now_ms if new < old else self.lost_ms,
        )


class Fleet(msgspec.Struct, frozen=True):
    """All slots that the settings name. `published_ms` is when the control plane's reading began.

    Without a control plane to read, `follows_control_plane` is false and drains and weights are
    unknown.
    """

    slots: Mapping[str, Slot]
    follows_control_plane: bool = False
    published_ms: float = NEVER_MS

    @staticmethod
    def unknown(names: Iterable[str], *, follows_control_plane: bool = False) -> Fleet:
        """The fleet before anything was read."""
        slots = {name: Slot(name) for name in names}
        return Fleet(MappingProxyType(slots), follows_control_plane)

    def heard(self, name: str, heard: Heard, asked_ms: float, now_ms: float) -> Fleet:
        """The fleet after one slot was read."""
        slots = {**self.slots, name: self.slots[name].after(heard, asked_ms, now_ms)}
        return msgspec.structs.replace(self, slots=MappingProxyType(slots))

    def published(
        self, published: Iterable[PublishedSlot], asked_ms: float, now_ms: float
    ) -> Fleet:
        """The fleet after the control plane was read; slots that the settings lack are ignored."""
        by_name = {each.slot: each for each in published}
        slots = {
            name: slot.as_published(by_name.get(name), now_ms) for name, slot in self.slots.items()
        }
        return msgspec.structs.replace(self, slots=MappingProxyType(slots), published_ms=asked_ms)

    def was_read_since(self, name: str, at_ms: float) -> bool:
        """Whether all that can be known of a slot was read anew, beginning after `at_ms`."""
        slot = self.slots.get(name)
        if slot is None:
            return True
        published = not self.follows_control_plane or self.published_ms >= at_ms
        return slot.asked_ms >= at_ms and published


def _is_another(before: ReplicaLoad | None, now: ReplicaLoad) -> bool:
    """Whether the cache was emptied in between: a counter fell, or the engine was built anew."""
    if before is None:
        return False
    return (
        now.prompt_tokens_computed_total < before.prompt_tokens_computed_total
        or now.engine_failures_total > before.engine_failures_total
    )
