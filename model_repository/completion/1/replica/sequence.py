"""One sequence from acceptance to its last response: what it produced and when.

Times are microseconds of the loop's monotonic clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from replica.engine import SequenceSpec, StepOutput
from replica.errors import ReplicaError
from replica.request import GenerationRequest
from replica.stop_rule import FinishReason, StopMatcher

GROUP_TOKENS_MAX = 8


@dataclass(frozen=True, slots=True)
class Summary:
    """What the last response says beside its tokens; the fields are output tensors."""

    finish_reason: FinishReason
    cached_tokens: int
    queue_us: int
    prefill_us: int
    decode_us: int


class Responder(Protocol):
    """Where a sequence's responses go. Used by the loop's thread alone."""

    def is_cancelled(self) -> bool:
        """Whether the caller has gone."""
        ...

    def send(self, token_ids: Sequence[int], summary: Summary | None) -> None:
        """Send tokens; with a summary this is the last response and carries the final flag."""
        ...

    def fail(self, error: ReplicaError) -> None:
        """Send an error with the final flag."""
        ...


@dataclass(slots=True)
class LiveSequence:
    """A sequence that was accepted and not yet answered to its end."""

    sequence_id: int
    request: GenerationRequest
    responder: Responder
    accepted_us: int
    matcher: StopMatcher
    scheduled_us: int | None = None
    first_token_us: int | None = None
    cached_tokens: int = 0
    computed_tokens: int = 0
    output_tokens: int = 0
    tokens_since_check: int = 0
    tokens_after_cancel: int = 0
    unsent: list[int] = field(default_factory=list)

    @property
    def deadline_us(self) -> int | None:
        """When the answer is too late, or None."""
        if self.request.deadline_ms is None:
            return None
        return self.accepted_us + self.request.deadline_ms * 1_000

    def is_late(self, now_us: int) -> bool:
        """Whether the deadline has passed."""
        return self.deadline_us is not None and now_us >= self.deadline_us

    def spec(self) -> SequenceSpec:
        """What the engine needs to know."""
        return SequenceSpec(
            sequence_id=self.sequence_id,
            prompt_ids=self.request.prompt_ids,
            cache_salt=self.request.cache_salt,
            output_tokens_max=self.request.stop.output_tokens_max,
        )

    def take(self, output: StepOutput, started_us: int, now_us: int) -> FinishReason | None:
        """Take a step's result; `started_us` is when the step began. Returns why it ends here."""
        if self.scheduled_us is None:
            self.scheduled_us = started_us
        self.cached_tokens = output.cached_tokens
        self.computed_tokens += output.computed_tokens
        for token in output.token_ids:
            self.tokens_since_check += 1
            if self.first_token_us is None:
                self.first_token_us = now_us
            is_output, reason = self.matcher.feed(token)
            if is_output:
                self.output_tokens += 1
                self.unsent.append(token)
            if reason is not None:
                return reason
        return FinishReason.LENGTH if output.finished else None

    def due_group(self) -> tuple[int, ...]:
        """The tokens to send now in streaming: the first one at once, then full groups."""
        is_first = self.output_tokens == len(self.unsent)
        if not self.request.streaming or not self.unsent:
            return ()
        if not is_first and len(self.unsent) < GROUP_TOKENS_MAX:
            return ()
        return self.take_unsent()

    def take_unsent(self) -> tuple[int, ...]:
        """All tokens that were not sent yet; they count as sent."""
        tokens = tuple(self.unsent)
        self.unsent.clear()
        return tokens

    def summary(self, reason: FinishReason, now_us: int) -> Summary:
        """The times split at the first step and the first token; what never began takes 0."""
        scheduled_us = now_us if self.scheduled_us is None else self.scheduled_us
        first_token_us = now_us if self.first_token_us is None else self.first_token_us
        return Summary(
            finish_reason=reason,
            cached_tokens=self.cached_tokens,
            queue_us=scheduled_us - self.accepted_us,
            prefill_us=first_token_us - scheduled_us,
            decode_us=now_us - first_token_us,
        )
