"""The bounded tables of sessions, and that every request gets exactly one verdict."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.affinity import Affinity, Departure, LossReason, Placement, Verdict
from orchestrator.affinity.idle_table import IdleTable
from orchestrator.load.fleet import Fleet, Refused
from tests.support.orchestrator import load_report

SLOTS = ("a", "b", "c")


def test_the_least_recently_used_entry_goes_first() -> None:
    table: IdleTable[str, int] = IdleTable(2, 1_000)
    table.put("x", 1, 0.0)
    table.put("y", 2, 1.0)
    table.put("x", 3, 2.0)
    table.put("z", 4, 3.0)
    assert [table.get(key, 3.0) for key in "xyz"] == [3, None, 4]


def test_an_entry_expires_after_the_idle_span_and_makes_room() -> None:
    table: IdleTable[str, int] = IdleTable(10, 1_000)
    table.put("x", 1, 0.0)
    assert (table.get("x", 999.0), table.get("x", 1_000.0)) == (1, None)
    table.put("y", 2, 1_000.0)
    assert len(table) == 1


def test_amending_is_no_use_and_brings_nothing_back() -> None:
    table: IdleTable[str, int] = IdleTable(10, 1_000)
    table.put("x", 1, 0.0)
    table.amend("x", 5)
    table.amend("gone", 6)
    assert (table.get("x", 999.0), table.get("x", 1_000.0), len(table)) == (5, None, 1)


REQUEST = st.tuples(st.sampled_from("pqrstu"), st.sampled_from(SLOTS), st.integers(0, 400))
READING = st.tuples(st.sampled_from(SLOTS), st.booleans(), st.integers(0, 700))


@given(st.lists(st.one_of(REQUEST, READING), max_size=150))
def test_every_request_gets_exactly_one_verdict_and_no_table_passes_its_bound(
    steps: list[tuple[str, str | bool, int]],
) -> None:
    affinity = Affinity(Fleet.unknown(SLOTS), entries_max=4, idle_ms=5_000, waiting_max=3)
    verdicts: Counter[int] = Counter()
    kinds: list[Verdict] = []
    now_ms, asked = 0.0, 0

    def note(number: int, verdict: Verdict) -> None:
        verdicts[number] += 1
        kinds.append(verdict)

    for name, what, gap_ms in steps:
        now_ms += gap_ms
        if isinstance(what, bool):
            heard = load_report() if what else Refused("x")
            affinity.saw(affinity.fleet.heard(name, heard, now_ms - 1, now_ms), now_ms)
        else:
            asked += 1
            verdict = affinity.served("fast", name, what, now_ms)
            if isinstance(verdict, Departure):
                affinity.wait(verdict, lambda late, number=asked: note(number, late))
            else:
                note(asked, verdict)
        assert len(affinity) <= 4
        assert affinity.waiting <= 3
    affinity.close(now_ms)
    assert affinity.waiting == 0
    assert verdicts == Counter(range(1, asked + 1))
    for kind in kinds:
        assert (kind.reason is None) == (kind.placement in (Placement.WARM, Placement.FIRST))


def test_a_verdict_never_waits_longer_than_five_polls() -> None:
    """A replica whose readings never begin anew: its own loop is stuck, say."""
    fleet = Fleet.unknown(SLOTS)
    for slot in SLOTS:
        fleet = fleet.heard(slot, load_report(), 0.0, 0.0)
    affinity = Affinity(fleet, entries_max=4, idle_ms=600_000)
    affinity.served("fast", "s", "a", 10_000.0)
    departure = affinity.served("fast", "s", "b", 10_100.0)
    assert isinstance(departure, Departure)
    verdicts: list[Verdict] = []
    affinity.wait(departure, verdicts.append)
    for late_ms, decided in ((4_999.0, 0), (5_000.0, 1)):
        now_ms = 10_100.0 + late_ms
        affinity.saw(fleet.heard("b", load_report(), now_ms, now_ms), now_ms)
        assert len(verdicts) == decided
    assert verdicts == [Verdict(Placement.SPILLED, LossReason.SPILLED)]
