"""The fake engine behind the same seam: plays a script, keeps the Protocol's promises.

It honours deadlines and cancels, and counts what is live, so that tests and benches can hold
others to the same. It is no part of a served installation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from orchestrator.generation.inference import (
    DeadlineExpiredError,
    EngineFailureError,
    EngineReport,
    FinishReason,
    InferenceError,
    InferenceRequest,
    TokenGroup,
)


class Step(msgspec.Struct, frozen=True):
    """After `delay_ms`: a group of tokens, or an error."""

    delay_ms: float
    group: TokenGroup | None = None
    error: type[InferenceError] | None = None


Script = Callable[[InferenceRequest], Sequence[Step]]


def answer_with(token_ids: Sequence[int], delay_ms: float = 0.0) -> Script:
    """A script that answers every request with the same tokens in one response."""

    def script(request: InferenceRequest) -> Sequence[Step]:
        kept = tuple(token_ids[: request.max_tokens])
        reason = FinishReason.LENGTH if len(kept) < len(token_ids) else FinishReason.END_ID
        report = EngineReport(reason, len(request.token_ids), 0, 0, 0)
        return (Step(delay_ms, TokenGroup(kept, report)),)

    return script


class FakeInferenceClient:
    """An `InferenceClient` that plays `script`; `on_cancel` is told of each cancelled sequence.

    `place` names the slot that serves a sequence, as Envoy would.

    One that is not `punctual` goes on after the deadline, which the Protocol forbids: for tests of
    what its callers do then.
    """

    def __init__(
        self,
        script: Script,
        on_cancel: Callable[[], None] = lambda: None,
        *,
        punctual: bool = True,
        place: Callable[[InferenceRequest], str] = lambda _: "fake",
    ) -> None:
        self.script = script
        self.on_cancel = on_cancel
        self.punctual = punctual
        self.place = place
        self.requests: list[InferenceRequest] = []
        self.keep_requests = True
        self.entered = asyncio.Event()
        self.live = 0
        self.live_max = 0
        self.cancelled = 0

    def open(self, request: InferenceRequest) -> _FakeStream:
        """A sequence that plays the script for `request`."""
        if self.keep_requests:
            self.requests.append(request)
        return _FakeStream(self, request)

    async def close(self) -> None:
        """Nothing to let go of."""


class _FakeStream:
    def __init__(self, client: FakeInferenceClient, request: InferenceRequest) -> None:
        self._client = client
        self._steps = iter(client.script(request))
        self._left_ms = float(request.remaining_ms) if client.punctual else float("inf")
        self._over = False
        self._slot = client.place(request)
        self.replica = ""

    async def __aenter__(self) -> Self:
        self._client.entered.set()
        self._client.live += 1
        self._client.live_max = max(self._client.live_max, self._client.live)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.live -= 1
        if not self._over:
            self._client.cancelled += 1
            self._client.on_cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TokenGroup:
        step = next(self._steps, None)
        if step is None:
            self._over = True
            raise StopAsyncIteration
        await self._wait(step.delay_ms)
        self.replica = self._slot
        if step.error is not None or step.group is None:
            self._over = True
            raise (step.error or EngineFailureError)()
        self._over = step.group.report is not None
        return step.group

    async def _wait(self, delay_ms: float) -> None:
        """Lets the step's time pass, but not more than the deadline leaves."""
        if delay_ms > 0:
            await asyncio.sleep(min(delay_ms, max(self._left_ms, 0.0)) / 1000)
        self._left_ms -= delay_ms
        if self._left_ms < 0:
            self._over = True
            raise DeadlineExpiredError
