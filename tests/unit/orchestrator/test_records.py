from __future__ import annotations

import asyncio
import enum
import typing

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from orchestrator.clock import ManualClock
from orchestrator.outcome import Outcome
from orchestrator.record.metrics import RequestMetrics
from orchestrator.record.recorder import Recorder
from orchestrator.record.request_record import RequestRecord
from orchestrator.record.sinks import MemorySink, RecordSink, Tee
from orchestrator.session import SessionHasher
from tests.support.orchestrator import SECRET, affinity_of, request

OUR_OWN_TEXTS = {
    "completion_id": "made by us",
    "tenant": "named by an administrator",
    "user_key": "keyed hash",
    "session_key": "keyed hash",
    "language": "from a closed list",
    "reason": "from a closed list or a rule's name",
    "error_type": "a class of ours",
    "pool": "named by an administrator",
    "replica": "named by an administrator",
    "model": "pool and digest",
    "recipe": "named by an administrator",
    "arm": "named by an administrator",
}


def test_no_field_of_a_record_can_hold_what_was_received_or_generated() -> None:
    hints = typing.get_type_hints(RequestRecord)
    texts = {
        name
        for name, kind in hints.items()
        if str in (kind, *typing.get_args(kind)) and not issubclass_of_enum(kind)
    }
    assert texts == set(OUR_OWN_TEXTS)
    numbers_and_enums = {name: kind for name, kind in hints.items() if name not in OUR_OWN_TEXTS}
    for name, kind in numbers_and_enums.items():
        options = typing.get_args(kind) or (kind,)
        assert all(is_harmless(each) for each in options), name


def issubclass_of_enum(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def is_harmless(kind: type) -> bool:
    if issubclass(kind, msgspec.Struct):
        return all(
            is_harmless(each)
            for hint in typing.get_type_hints(kind).values()
            for each in (typing.get_args(hint) or (hint,))
        )
    return kind in (int, float, type(None)) or issubclass(kind, enum.Enum)


def recorder(sink: RecordSink, clock: ManualClock) -> Recorder:
    return Recorder(SessionHasher(SECRET), sink, clock, affinity_of())


def test_a_request_is_recorded_once_with_the_time_it_took() -> None:
    sink, clock = MemorySink(), ManualClock()
    with recorder(sink, clock).open(request()) as recording:
        clock.advance(5)
        recording.lap("admission")
        clock.advance(7)
        recording.ended(Outcome.REFUSED, "deadline")
    (record,) = sink.records
    assert (record.times.admission, record.times.total) == (5.0, 12.0)
    assert record.reason == "deadline"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(asyncio.CancelledError(), Outcome.CANCELLED), (KeyboardInterrupt(), Outcome.FAILED)],
)
def test_what_must_go_on_goes_on_and_is_recorded(error: BaseException, outcome: Outcome) -> None:
    sink = MemorySink()
    with (
        pytest.raises(type(error)),
        recorder(sink, ManualClock()).open(request()),
    ):
        raise error
    assert [record.outcome for record in sink.records] == [outcome]


def test_a_request_without_an_outcome_is_our_mistake() -> None:
    with (
        pytest.raises(AssertionError, match="without an outcome"),
        recorder(MemorySink(), ManualClock()).open(request()),
    ):
        pass


def test_records_become_metrics() -> None:
    registry = CollectorRegistry()
    metrics, memory = RequestMetrics(registry), MemorySink()
    clock = ManualClock()
    sink = Tee([metrics, memory])
    with recorder(sink, clock).open(request()) as one:
        clock.advance(30)
        one.ended(Outcome.REFUSED, "deadline")
    metrics.malformed(413)
    labels = {"outcome": "refused", "reason": "deadline", "mode": "none"}
    assert registry.get_sample_value("warmline_requests_total", labels) == 1.0
    total = {"stage": "total", "mode": "none"}
    assert registry.get_sample_value("warmline_stage_seconds_sum", total) == pytest.approx(0.03)
    status = {"status": "413"}
    assert registry.get_sample_value("warmline_malformed_requests_total", status) == 1.0
    assert len(memory.records) == 1
