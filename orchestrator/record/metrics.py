"""Records as Prometheus metrics. Labels come from closed lists, so their number is bounded."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from orchestrator.affinity import LossReason, Placement
from orchestrator.record.recipe_metrics import RecipeMetrics
from orchestrator.record.request_record import RequestRecord

_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.008, 0.012, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3,
            0.5, 0.8, 1.2, 2.0, 3.0)  # fmt: skip
"""Buckets around the budgets: 3 and 8 ms of our own, 120 ms warm, 800 ms and 2 s deadlines."""

_STAGES = ("total", "admission", "prompt", "queue", "prefill", "decode", "postprocess")


class RequestMetrics:
    """A sink that counts records, and the counts of what has no record."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "warmline_requests", "Requests by how they ended.", ("outcome", "reason", "mode"),
            registry=registry,
        )  # fmt: skip
        self._failures = Counter(
            "warmline_request_failures", "Failed requests by type of error.", ("type",),
            registry=registry,
        )  # fmt: skip
        self._stages = Histogram(
            "warmline_stage_seconds", "Time of one stage of a request.", ("stage", "mode"),
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._tokens = Counter(
            "warmline_tokens", "Tokens by kind: prompt, cached, completion.", ("kind",),
            registry=registry,
        )  # fmt: skip
        self._placements = Counter(
            "warmline_affinity_requests", "Requests by where their session's replica stood.",
            ("placement",), registry=registry,
        )  # fmt: skip
        self._losses = Counter(
            "warmline_affinity_loss", "Requests that missed their session's warm prefix, by why.",
            ("reason",), registry=registry,
        )  # fmt: skip
        for placement in Placement:  # All present from the start, so that rates begin at zero.
            self._placements.labels(placement)
        for reason in LossReason:
            self._losses.labels(reason)
        self._recipes = RecipeMetrics(registry)
        self._malformed = Counter(
            "warmline_malformed_requests", "Requests refused before they were parsed.", ("status",),
            registry=registry,
        )  # fmt: skip
        self.in_flight = Gauge(
            "warmline_requests_in_flight", "Requests being served now.", registry=registry
        )

    def write(self, record: RequestRecord) -> None:
        """Counts one request."""
        mode = record.mode or "none"
        self._requests.labels(record.outcome, record.reason or "", mode).inc()
        if record.placement is not None:
            self._placements.labels(record.placement).inc()
        if record.affinity_loss is not None:
            self._losses.labels(record.affinity_loss).inc()
        if record.error_type is not None and record.outcome == "failed":
            self._failures.labels(record.error_type).inc()
        for stage in _STAGES:
            value_ms = getattr(record.times, stage)
            if value_ms > 0:
                self._stages.labels(stage, mode).observe(value_ms / 1000)
        self._tokens.labels("prompt").inc(record.usage.prompt_tokens)
        self._tokens.labels("cached").inc(record.usage.cached_tokens or 0)
        self._tokens.labels("completion").inc(record.usage.completion_tokens)
        self._recipes.write(record)

    def malformed(self, status: int) -> None:
        """Counts a request that never became one."""
        self._malformed.labels(str(status)).inc()
