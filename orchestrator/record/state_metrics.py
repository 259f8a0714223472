"""What a worker decides on, as gauges: read when they are asked for, from the metrics thread."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from orchestrator.affinity import Affinity
from orchestrator.affinity.epochs import Epochs
from orchestrator.clock import Clock
from orchestrator.load.fleet import Standing


class StateMetrics(Collector):
    """The slots' standing and the sizes of the sessions' tables.

    What a replica reports of itself is on its own `/metrics` and not repeated here.
    """

    def __init__(self, affinity: Affinity, epochs: Epochs, clock: Clock) -> None:
        self._affinity = affinity
        self._epochs = epochs
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Every gauge once."""
        standings = GaugeMetricFamily(
            "warmline_slot_standing",
            "1 for what the slot counts as: live, full or gone.",
            labels=("slot", "standing"),
        )
        now_ms = self._clock.now_ms()
        for slot in self._affinity.fleet.slots.values():
            for standing in Standing:
                value = slot.standing(now_ms) is standing
                standings.add_metric((slot.name, standing), float(value))
        yield standings
        entries = GaugeMetricFamily(
            "warmline_session_table_entries", "Entries of a table.", labels=("table",)
        )
        entries.add_metric(("affinity",), len(self._affinity))
        entries.add_metric(("epochs",), len(self._epochs))
        yield entries
        yield GaugeMetricFamily(
            "warmline_affinity_undecided",
            "Requests that wait for a reading of the replica they left.",
            self._affinity.waiting,
        )
