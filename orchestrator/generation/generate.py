"""Drives one sequence: opens it, decodes what arrives, applies the stop rule, cancels when done."""

from __future__ import annotations

import msgspec

from orchestrator.generation.decoding import TokenDecoder
from orchestrator.generation.inference import (
    DeadlineExpiredError,
    EngineFailureError,
    EngineReport,
    FinishReason,
    InferenceClient,
    InferenceRequest,
)
from orchestrator.generation.stopping import BlockRule


class Generated(msgspec.Struct, frozen=True):
    """What came out of a sequence, and what it took.

    `report` is None where the sequence was stopped here before the engine reported.
    """

    text: str
    completion_tokens: int
    replica: str
    report: EngineReport | None


async def generate(
    client: InferenceClient,
    request: InferenceRequest,
    decoder: TokenDecoder,
    block: BlockRule | None,
) -> Generated:
    """The text of one sequence, cut where `block` ends it. Raises `InferenceError`.

    Leaving early, by the stop rule or because the caller was cancelled, cancels the sequence.
    """
    text, tokens, report, stop_at = "", 0, None, None
    async with client.open(request) as stream:
        async for group in stream:
            tokens += len(group.token_ids)
            report = group.report or report
            piece = decoder.feed(group.token_ids)
            text += piece
            stop_at = block.feed(piece) if block is not None else None
            if stop_at is not None or decoder.ended:
                break
    _refuse_unfinished(report, stopped_here=stop_at is not None or decoder.ended)
    return Generated(text[:stop_at], tokens, stream.replica, report)


def _refuse_unfinished(report: EngineReport | None, *, stopped_here: bool) -> None:
    """Raises where the engine gave up: what it sent until then is no completion."""
    if report is None:
        if not stopped_here:
            raise EngineFailureError
    elif report.finish_reason is FinishReason.DEADLINE:
        raise DeadlineExpiredError
    elif report.finish_reason is FinishReason.CANCELLED:
        raise EngineFailureError
