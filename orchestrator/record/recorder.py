"""Builds the record while the request goes on its way, and hands it over exactly once.

A recording is a `with` block around the whole request. Leaving it writes the record: as it ended,
as `cancelled` when the client went away, as `expired` or `failed` when anything raised. A failure
stops here, because the client is owed a fast empty answer and not our error; a cancel goes on.
A record whose placement is not decided yet is handed over when it is, seconds later at most.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from orchestrator.affinity import Affinity, Departure, Verdict
from orchestrator.clock import Clock
from orchestrator.failure import location_of
from orchestrator.generation.generate import Generated
from orchestrator.generation.inference import DeadlineExpiredError, InferenceError
from orchestrator.languages import language_of
from orchestrator.outcome import Outcome
from orchestrator.policy import PolicyDecision, PolicyDocument
from orchestrator.postprocess import Dropped, FilterVerdict
from orchestrator.prompt.history import Continuity
from orchestrator.prompt.parts import FimPrompt
from orchestrator.record.request_record import RequestRecord, StageTimes, Usage
from orchestrator.record.sinks import RecordSink
from orchestrator.request import CompletionRequest, Deadline
from orchestrator.routing import Route, RoutingDecision
from orchestrator.session import SessionHasher

_log = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True):
    """What the client gets, for any wire format to render."""

    request: CompletionRequest
    record: RequestRecord
    suggestion: str
    debounce_hint_ms: int


class Recording:
    """One request's record in the making. Stages note here what they decided."""

    def __init__(
        self,
        request: CompletionRequest,
        hasher: SessionHasher,
        sink: RecordSink,
        clock: Clock,
        affinity: Affinity,
    ) -> None:
        document = request.document
        self.request = request
        self.session_key = hasher.session_key(request)
        self.language = language_of(document.language, document.path)
        self._user_key = hasher.user_key(request.principal)
        self._sink = sink
        self._clock = clock
        self._affinity = affinity
        self._lap_ms = request.arrived_ms
        self._laps: dict[str, float] = {}
        self._policy: PolicyDocument | None = None
        self._routing: RoutingDecision | None = None
        self._recipe = ""
        self._prompt: FimPrompt | None = None
        self._compared = Continuity()
        self._generated: Generated | None = None
        self._placed: Verdict | Departure | None = None
        self._record: RequestRecord | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is not None:
            self._record = self._finish(_outcome_of(error), error_type=type(error).__name__)
        assert self._record is not None, "a request ended without an outcome"
        self._hand_over(self._record)
        return isinstance(error, Exception)

    def decided(self, policy: PolicyDecision) -> None:
        """Notes the policy that applies."""
        self._policy = policy.policy

    def routed(self, routing: RoutingDecision) -> None:
        """Notes where the request goes."""
        self._routing = routing

    def composed(self, prompt: FimPrompt, recipe: str, compared: Continuity) -> None:
        """Notes the prompt that is sent, its recipe, and what the session's last one shares."""
        self._compared = compared
        self._prompt, self._recipe = prompt, recipe

    def generated(self, generated: Generated) -> None:
        """Notes what the engine did, and what that says about the session's warm prefix."""
        self._generated = generated
        if generated.replica and isinstance(self._routing, Route):
            self._placed = self._affinity.served(
                self._routing.pool.name, self.session_key, generated.replica, self._clock.now_ms()
            )

    def lap(self, stage: str) -> None:
        """Ends the stage that began where the last one ended."""
        now_ms = self._clock.now_ms()
        self._laps[stage] = now_ms - self._lap_ms
        self._lap_ms = now_ms

    def ended(self, outcome: Outcome, reason: str | None = None) -> Answer:
        """Ends the request without a suggestion."""
        self._record = self._finish(outcome, reason)
        return self.answer()

    def judged(self, verdict: FilterVerdict, deadline: Deadline) -> Answer:
        """Ends the request with what the filters left of it, unless it is too late by now."""
        assert self._generated is not None
        if deadline.remaining_ms(self._clock.now_ms()) <= 0:
            return self.ended(Outcome.EXPIRED)
        if not self._generated.text:
            return self.ended(Outcome.EMPTY)
        if isinstance(verdict, Dropped):
            return self.ended(Outcome.FILTERED, verdict.rule)
        self._record = self._finish(Outcome.SHOWN_CANDIDATE, suggestion_chars=len(verdict.text))
        return self.answer(verdict.text)

    def answer(self, suggestion: str = "") -> Answer:
        """The answer to a request that has ended."""
        assert self._record is not None, "a request that has not ended has no answer"
        hint_ms = 0 if self._policy is None else self._policy.debounce_hint_ms
        return Answer(self.request, self._record, suggestion, hint_ms)

    def _finish(
        self,
        outcome: Outcome,
        reason: str | None = None,
        error_type: str | None = None,
        suggestion_chars: int = 0,
    ) -> RequestRecord:
        request, routing, prompt = self.request, self._routing, self._prompt
        route = routing if isinstance(routing, Route) else None
        verdict = self._placed if isinstance(self._placed, Verdict) else None
        return RequestRecord(
            completion_id=request.completion_id,
            tenant=request.principal.tenant,
            user_key=self._user_key,
            session_key=self.session_key,
            tier=request.principal.tier,
            trigger=request.trigger,
            language=self.language,
            outcome=outcome,
            reason=reason,
            error_type=error_type,
            mode=None if routing is None else routing.mode,
            pool="" if route is None else route.pool.name,
            replica="" if self._generated is None else self._generated.replica,
            placement=None if verdict is None else verdict.placement,
            affinity_loss=None if verdict is None else verdict.reason,
            model="" if route is None else route.pool.model,
            recipe=self._recipe,
            arm="" if route is None else route.arm,
            policy_version=0 if self._policy is None else self._policy.policy_version,
            deadline_limit_ms=0 if route is None else route.deadline.limit_ms,
            prompt_stable_tokens=0 if prompt is None else prompt.stable_tokens,
            prompt_shared_with_previous=self._compared.shared_tokens,
            snippet_change=self._compared.snippet_change,
            prompt_sections_dropped=0 if prompt is None else len(prompt.dropped),
            generation_ms=self._laps.get("generation", 0.0),
            suggestion_chars=suggestion_chars,
            usage=self._usage(),
            times=self._times(),
        )

    def _hand_over(self, record: RequestRecord) -> None:
        if isinstance(self._placed, Departure):
            # Bound to the record alone: this recording holds the request, and its text.
            self._affinity.wait(self._placed, partial(_write_placed, self._sink, record))
        else:
            self._sink.write(record)

    def _usage(self) -> Usage:
        generated = self._generated
        if self._prompt is None:
            return Usage()
        if generated is None:
            return Usage(len(self._prompt.token_ids), None, 0)
        report = generated.report
        cached = None if report is None else report.cached_tokens
        return Usage(len(self._prompt.token_ids), cached, generated.completion_tokens)

    def _times(self) -> StageTimes:
        report = None if self._generated is None else self._generated.report
        return StageTimes(
            total=self._clock.now_ms() - self.request.arrived_ms,
            admission=self._laps.get("admission", 0.0),
            prompt=self._laps.get("prompt", 0.0),
            queue=0.0 if report is None else report.queue_us / 1000,
            prefill=0.0 if report is None else report.prefill_us / 1000,
            decode=0.0 if report is None else report.decode_us / 1000,
            postprocess=self._laps.get("postprocess", 0.0),
        )


class Recorder:
    """Opens a recording for each request; all of a worker's records go to one sink."""

    def __init__(
        self, hasher: SessionHasher, sink: RecordSink, clock: Clock, affinity: Affinity
    ) -> None:
        self._hasher = hasher
        self._sink = sink
        self._clock = clock
        self._affinity = affinity

    def open(self, request: CompletionRequest) -> Recording:
        """A recording to be entered at once."""
        return Recording(request, self._hasher, self._sink, self._clock, self._affinity)


def _write_placed(sink: RecordSink, record: RequestRecord, verdict: Verdict) -> None:
    sink.write(
        msgspec.structs.replace(record, placement=verdict.placement, affinity_loss=verdict.reason)
    )


def _outcome_of(error: BaseException) -> Outcome:
    if isinstance(error, asyncio.CancelledError):
        return Outcome.CANCELLED
    if isinstance(error, DeadlineExpiredError):
        return Outcome.EXPIRED
    if not isinstance(error, InferenceError):
        # Type and place only: a message could quote what was received.
        _log.error("request failed: %s at %s", type(error).__name__, location_of(error))
    return Outcome.FAILED
