"""Why a request was served where it was: one verdict from a session's memory and the fleet. Pure.

Envoy names the slot that served, never why. What can be known about the why:

- A session that leaves a slot which is draining, unlisted, in trouble, replaced or got less
  weight, or that goes to a slot which came, came back or got more weight, was **moved**: Maglev
  moves a session only when its own slot or the one that draws it changes (docs/envoy.md).
- A session that goes back to its home, or to the slot that stands in for it, has **returned**.
- A session that leaves a slot for which a reading, begun `_SURE_OF_HEALTH_MS` after it left, shows
  none of that, was **spilled** by the load bound. Until there is such a reading there is no
  verdict: Envoy notices a dead replica before a poll once a second does, so whoever decides at once
  takes the first second of every failure for a spill. The wait is longer than a poll because a
  killed Triton's model process, which answers the polls, lives on for a moment.

A change explains departures from `_LAG_MS` before it was noticed on: it is noticed late by up to
one poll here, and takes effect late by what Envoy needs. Where a change and a spill meet within
that time, the change gets the blame.

Not done: computing Envoy's Maglev table here, which would name a session's slot without doubt. It
would have to repeat Envoy's hashing, its order of hosts and its own view of their health, and be
wrong without a sign whenever one of them differs.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from orchestrator.load.fleet import Fleet, Slot

_LAG_MS = 1_000
_SURE_OF_HEALTH_MS = 1_500
_HOME_AFTER_MS = 600_000
_SURE_AFTER_MS = 30_000


class Placement(StrEnum):
    """Where a request was served, as seen from its session."""

    WARM = "warm"
    FIRST = "first"
    SPILLED = "spilled"
    MOVED = "moved"
    RETURNED = "returned"


class LossReason(StrEnum):
    """Why a request did not meet the prefix that its session's last request left."""

    SPILLED = "spilled"
    RETURNED = "returned"
    DRAINED = "drained"
    UNAVAILABLE = "unavailable"
    REPLACED = "replaced"
    PLACEMENT_CHANGED = "placement_changed"
    UNEXPLAINED = "unexplained"


class Verdict(msgspec.Struct, frozen=True):
    """A placement and, for all but warm and first, the reason."""

    placement: Placement
    reason: LossReason | None = None


class Places(msgspec.Struct, frozen=True):
    """A session's memory, per pool.

    `home` is the slot it belongs on. `stand_in` is another one that it may belong on, or empty:
    where it was sent while its home is away, or, for `_SURE_AFTER_MS`, where it came from when
    its home changed. `last` served it last, since `since_ms` and the last time at `at_ms`.
    """

    home: str
    stand_in: str
    last: str
    since_ms: float
    at_ms: float


WARM = Verdict(Placement.WARM)
FIRST = Verdict(Placement.FIRST)
RETURNED = Verdict(Placement.RETURNED, LossReason.RETURNED)
SPILLED = Verdict(Placement.SPILLED, LossReason.SPILLED)


def judge(
    before: Places | None, served: str, fleet: Fleet, at_ms: float, *, final: bool = False
) -> Verdict | None:
    """The verdict on a request that `served` answered at `at_ms`; None while it is too early.

    With `final` there is always one, by what is known now.
    """
    if before is None:
        return FIRST
    if served == before.last:
        slot = fleet.slots.get(served)
        replaced = slot is not None and slot.replaced_ms >= before.at_ms
        return _moved(LossReason.REPLACED) if replaced else WARM
    if served in (before.home, before.stand_in):
        return RETURNED
    reason = _change(fleet.slots.get(before.last), fleet.slots.get(served), before.at_ms - _LAG_MS)
    if reason is not None:
        return _moved(reason)
    is_well = fleet.was_read_since(before.last, at_ms + _SURE_OF_HEALTH_MS)
    return SPILLED if final or is_well else None


def visited(before: Places | None, served: str, fleet: Fleet, at_ms: float) -> Places:
    """The memory after a request, before its verdict is known."""
    if before is None:
        return Places(home=served, stand_in="", last=served, since_ms=at_ms, at_ms=at_ms)
    if served != before.last:
        return Places(before.home, before.stand_in, served, at_ms, at_ms)
    places = msgspec.structs.replace(before, at_ms=at_ms)
    stayed_ms = at_ms - before.since_ms
    if served == before.home:
        return places if stayed_ms < _SURE_AFTER_MS else _at_home(places, served)
    # Its home could have had it back all this time: home was a mistake, or a lasting change.
    at_home = stayed_ms >= _HOME_AFTER_MS and not _is_away(fleet.slots.get(before.home))
    return _at_home(places, served) if at_home else places


def settled(
    now: Places, departed: Places | None, served: str, verdict: Verdict, fleet: Fleet
) -> Places:
    """The memory after a verdict; `departed` is the memory that the request met.

    A session that has gone elsewhere since keeps what it has learnt there.
    """
    if departed is None or now.last != served or served == departed.last:
        return now
    if verdict.placement is Placement.RETURNED:
        stays = served == departed.home or not _is_away(fleet.slots.get(departed.home))
        return _at_home(now, served) if stays else now
    if verdict.reason in (LossReason.PLACEMENT_CHANGED, LossReason.UNEXPLAINED):
        # A spill may have been blamed on the change: then it goes back to where it was.
        return msgspec.structs.replace(now, home=served, stand_in=departed.home)
    was_at_its_place = departed.last in (departed.home, departed.stand_in)
    if verdict.placement is Placement.MOVED and was_at_its_place:
        return msgspec.structs.replace(now, stand_in=served)
    return now


def _at_home(places: Places, home: str) -> Places:
    return msgspec.structs.replace(places, home=home, stand_in="")


def _change(left: Slot | None, joined: Slot | None, since_ms: float) -> LossReason | None:
    """What moved a session from `left` to `joined`, if a change noticed since did."""
    if left is None:
        return LossReason.UNEXPLAINED
    if left.is_drained or left.drained_ms >= since_ms:
        return LossReason.DRAINED
    if left.trouble or max(left.down_ms, left.replaced_ms) >= since_ms:
        return LossReason.UNAVAILABLE
    # A replaced process came back as well, maybe between two polls.
    gained = joined is not None and max(joined.gained_ms, joined.replaced_ms) >= since_ms
    if gained or left.lost_ms >= since_ms:
        return LossReason.PLACEMENT_CHANGED
    return None


def _is_away(slot: Slot | None) -> bool:
    return slot is None or slot.is_away()


def _moved(reason: LossReason) -> Verdict:
    return Verdict(Placement.MOVED, reason)
