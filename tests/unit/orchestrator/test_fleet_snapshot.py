"""What a worker takes a slot for, from its readings and their age."""

from __future__ import annotations

import pytest

from orchestrator.load.fleet import (
    FULL_AFTER_MS,
    GONE_AFTER_MS,
    Fleet,
    PublishedSlot,
    Refused,
    Silent,
    Slot,
    Standing,
)
from tests.support.orchestrator import load_report


def fleet_with(slot: Slot) -> Fleet:
    return Fleet({slot.name: slot})


def reported(at_ms: float = 0.0) -> Slot:
    return Slot("a").after(load_report(), at_ms, at_ms)


@pytest.mark.parametrize(
    ("age_ms", "standing"),
    [
        (0, Standing.LIVE),
        (FULL_AFTER_MS, Standing.LIVE),
        (FULL_AFTER_MS + 1, Standing.FULL),
        (GONE_AFTER_MS, Standing.FULL),
        (GONE_AFTER_MS + 1, Standing.GONE),
    ],
)
def test_silence_makes_a_slot_full_and_then_gone(age_ms: float, standing: Standing) -> None:
    assert reported().standing(age_ms) is standing
    assert reported().after(Silent("ReadTimeout"), age_ms, age_ms).standing(age_ms) is standing


def test_what_a_replica_says_of_itself_counts_at_once() -> None:
    refused = reported().after(Refused("status 503"), 10.0, 10.0)
    assert (refused.standing(10.0), refused.trouble) == (Standing.GONE, "status 503")
    back = refused.after(load_report(), 20.0, 20.0)
    assert (back.standing(20.0), back.trouble, back.gained_ms) == (Standing.LIVE, "", 20.0)


def test_a_slot_that_was_never_heard_of_is_gone() -> None:
    assert Slot("a").standing(0.0) is Standing.GONE


def test_trouble_is_dated_when_it_begins_and_not_again() -> None:
    slot = reported().after(Silent("x"), 10.0, 11.0).after(Refused("y"), 20.0, 21.0)
    assert (slot.down_ms, slot.asked_ms) == (11.0, 20.0)


@pytest.mark.parametrize("now", [load_report(computed=99), load_report(computed=100, failures=1)])
def test_an_emptied_cache_is_noticed_by_its_counters(now: object) -> None:
    slot = Slot("a").after(load_report(computed=100), 0.0, 0.0)
    assert slot.after(load_report(computed=100), 10.0, 10.0).replaced_ms < 0
    assert slot.after(now, 10.0, 10.0).replaced_ms == 10.0  # type: ignore[arg-type]


def published(state: str = "serving", weight: int = 100) -> PublishedSlot:
    return PublishedSlot("a", state, weight)


def test_the_first_reading_of_the_control_plane_is_no_change() -> None:
    slot = reported().as_published(published(), 5.0)
    assert max(slot.drained_ms, slot.lost_ms) < 0
    assert slot.gained_ms == 0.0  # its first report, not the control plane's


@pytest.mark.parametrize("taken_out", [published("draining"), published("drained"), None])
def test_a_drained_or_unlisted_slot_is_away_until_it_is_back(
    taken_out: PublishedSlot | None,
) -> None:
    slot = reported().as_published(published(), 5.0).as_published(taken_out, 10.0)
    assert slot.is_away()
    assert (slot.is_drained, slot.drained_ms) == (True, 10.0)
    back = slot.as_published(published("serving", 10), 20.0)
    assert not back.is_away()
    assert (back.is_drained, back.gained_ms, back.drained_ms) == (False, 20.0, 10.0)


def test_a_weight_that_grows_gains_and_one_that_shrinks_loses() -> None:
    slot = reported().as_published(published(weight=50), 5.0)
    assert slot.as_published(published(weight=60), 10.0).gained_ms == 10.0
    assert slot.as_published(published(weight=40), 10.0).lost_ms == 10.0
    unchanged = slot.as_published(published(weight=50), 10.0)
    assert max(unchanged.gained_ms, unchanged.lost_ms) < 10.0


def test_slots_that_the_settings_lack_are_ignored() -> None:
    fleet = fleet_with(reported()).published([PublishedSlot("stranger", "serving")], 1.0, 2.0)
    assert list(fleet.slots) == ["a"]


def test_a_snapshot_is_not_changed_by_the_next_reading() -> None:
    before = Fleet.unknown(["a", "b"])
    after = before.heard("a", load_report(), 1.0, 2.0)
    assert before.slots["a"].load is None
    assert after.slots["a"].load is not None
    assert after.slots["b"] is before.slots["b"]
    with pytest.raises(TypeError):
        after.slots["a"] = before.slots["a"]  # type: ignore[index]


@pytest.mark.parametrize("follows", [False, True])
def test_a_slot_was_read_anew_when_every_source_was(follows: bool) -> None:
    fleet = Fleet.unknown(["a"], follows_control_plane=follows)
    assert not fleet.was_read_since("a", 10.0)
    fleet = fleet.heard("a", load_report(), 10.0, 11.0)
    assert fleet.was_read_since("a", 10.0) is not follows
    assert fleet.published([], 10.0, 11.0).was_read_since("a", 10.0)
    assert not fleet.was_read_since("a", 10.5)
    assert fleet.was_read_since("stranger", 10.0)
