"""The seam between the request plane and the engines: one Protocol, its values and its errors.

    InferenceError            the request got no usable result from the engine
    |- DeadlineExpiredError   the deadline passed first
    |- ReplicaUnavailableError  no replica could be reached
    |- RequestRejectedError   the engine refused the request as malformed: our mistake
    `- EngineFailureError     the engine failed, or answered with nonsense

No error carries a message of the engine's: it could quote the prompt.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from types import TracebackType
from typing import Protocol, Self

import msgspec


class StopRule(IntEnum):
    """Stop rules that the engine applies itself; the numbers are the tensor's."""

    NONE = 0
    NEWLINE = 1


class FinishReason(IntEnum):
    """Why the engine stopped; the numbers are the tensor's."""

    END_ID = 1
    STOP_RULE = 2
    STOP_WORD = 3
    LENGTH = 4
    CANCELLED = 5
    DEADLINE = 6


class InferenceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence to generate. `remaining_ms` counts from the moment it is sent."""

    pool: str
    session_key: str
    token_ids: array[int]
    cache_salt: bytes
    max_tokens: int
    stop_rule: StopRule
    streaming: bool
    remaining_ms: int


class EngineReport(msgspec.Struct, frozen=True):
    """What the engine says about a sequence; times in microseconds."""

    finish_reason: FinishReason
    cached_tokens: int
    queue_us: int
    prefill_us: int
    decode_us: int


class TokenGroup(msgspec.Struct, frozen=True):
    """Tokens of one response; the last one of a sequence carries the report."""

    token_ids: tuple[int, ...]
    report: EngineReport | None = None


class InferenceError(Exception):
    """The request got no usable result from the engine."""


class DeadlineExpiredError(InferenceError):
    """The deadline passed before the engine was done."""


class ReplicaUnavailableError(InferenceError):
    """No replica could be reached."""


class RequestRejectedError(InferenceError):
    """The engine refused the request as malformed."""


class EngineFailureError(InferenceError):
    """The engine failed, or its answer made no sense."""


class InferenceStream(Protocol):
    """One sequence in flight: a `with` block; leaving it early cancels the sequence."""

    async def __aenter__(self) -> Self:
        """Starts the sequence."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Cancels the sequence unless it has ended."""
        ...

    def __aiter__(self) -> Self:
        """The stream is its own iterator."""
        ...

    async def __anext__(self) -> TokenGroup:
        """The next token group; raises `InferenceError`, and StopAsyncIteration at the end."""
        ...

    @property
    def replica(self) -> str:
        """The slot that serves the sequence; empty until the first group."""
        ...


class InferenceClient(Protocol):
    """Generates sequences; one instance serves a whole worker."""

    def open(self, request: InferenceRequest) -> InferenceStream:
        """A sequence that starts when its block is entered."""
        ...

    async def close(self) -> None:
        """Lets go of connections; sequences in flight are cancelled."""
        ...
