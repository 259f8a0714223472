"""Where records go. A sink never raises and never waits: it stands in the request's way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from orchestrator.record.request_record import RequestRecord


class RecordSink(Protocol):
    """Takes records."""

    def write(self, record: RequestRecord) -> None:
        """Takes one record."""
        ...


class MemorySink:
    """Keeps records in a list: the fake for tests."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def write(self, record: RequestRecord) -> None:
        """Keeps the record."""
        self.records.append(record)


class Tee:
    """Hands each record to several sinks."""

    def __init__(self, sinks: Sequence[RecordSink]) -> None:
        self._sinks = tuple(sinks)

    def write(self, record: RequestRecord) -> None:
        """Hands the record on, in order."""
        for sink in self._sinks:
            sink.write(record)
