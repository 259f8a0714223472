"""The ways to the engine that benches compare: an editor's HTTP, and gRPC with or without Envoy.

All take the same document. The gRPC ways compose the prompt with the orchestrator's own code before
the clock starts, so that what HTTP adds is composition, pipeline and transport: our tax.
"""

import time
from array import array
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from orchestrator.generation.inference import EngineReport, InferenceRequest, StopRule
from orchestrator.generation.triton import TritonClient
from orchestrator.prompt.engine import PromptEngine, load_engine
from orchestrator.prompt.parts import PromptParts
from orchestrator.prompt.recipe_documents import DEFAULT_RECIPE, read_recipe
from orchestrator.prompt.segments import SegmentTable
from scripts.benches.editing import EditingSession
from scripts.benches.http_client import HttpConnection

COMPLETIONS = "/v1/inline-completions"
DEADLINE_MS = 30_000
"""Wide, so that slow runs are measured and not dropped; the workers must allow it."""

WIDE_LIMITS = {"line_deadline_ms": DEADLINE_MS, "block_deadline_ms": DEADLINE_MS}
"""Settings of workers that are measured with it."""


@dataclass(frozen=True)
class Sample:
    """One request: what the client waited, what the engine reported (ms), and its tokens."""

    client_ms: float
    queue_ms: float
    prefill_ms: float
    decode_ms: float
    postprocess_ms: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def engine_ms(self) -> float:
        """Time within the engine, waiting in its queue included."""
        return self.queue_ms + self.prefill_ms + self.decode_ms

    @property
    def around_engine_ms(self) -> float:
        """What the client waited beyond the engine and post-processing."""
        return self.client_ms - self.engine_ms - self.postprocess_ms


class Composer:
    """The served engine's prompt stage, used outside of a worker."""

    def __init__(self, engine_dir: Path) -> None:
        recipe = read_recipe(DEFAULT_RECIPE)
        self.engine: PromptEngine = load_engine(engine_dir, recipe, SegmentTable())

    def prompt(self, session: EditingSession) -> "array[int]":
        """The token ids that the orchestrator would send for this state of the session."""
        parts = PromptParts(session.prefix, session.suffix, session.path, 0)
        return self.engine.compose(parts, salt_of(session)).token_ids

    def exactly(self, text: str, tokens: int) -> "array[int]":
        """The first `tokens` ids of a text; ValueError when it is too short."""
        ids = self.engine.tokenizer.encode(text)
        if len(ids) < tokens:
            raise ValueError(f"the text has {len(ids)} tokens; {tokens} are needed")
        return ids[:tokens]


def salt_of(session: EditingSession) -> bytes:
    """A cache salt of the session's own."""
    return blake2b(session.document_id.encode(), digest_size=32).digest()


class UnansweredError(Exception):
    """The request ended without the engine's figures: expired, refused or failed."""


async def over_http(connection: HttpConnection, session: EditingSession, tokens: int) -> Sample:
    """One line through the edge, as an editor asks for it; raises `UnansweredError`."""
    body = session.body(mode="line", max_tokens=tokens, deadline_ms=DEADLINE_MS)
    started_s = time.perf_counter()
    answer = await connection.post(COMPLETIONS, body)
    client_ms = (answer.finished_s - started_s) * 1000
    content = answer.json()
    if answer.status != 200 or content["usage"]["cached_tokens"] is None:
        raise UnansweredError(f"status {answer.status}, outcome {content.get('outcome')}")
    times, usage = content["timings_ms"], content["usage"]
    return Sample(
        client_ms,
        times["queue"],
        times["prefill"],
        times["decode"],
        times["postprocess"],
        usage["prompt_tokens"],
        usage["cached_tokens"],
        usage["completion_tokens"],
    )


async def over_grpc(client: TritonClient, prompt: "array[int]", salt: bytes, tokens: int) -> Sample:
    """The same line by gRPC, to a replica or to Envoy's inference listener."""
    request = InferenceRequest(
        pool="fast",
        session_key=salt.hex(),
        token_ids=prompt,
        cache_salt=salt,
        max_tokens=tokens,
        stop_rule=StopRule.NEWLINE,
        streaming=False,
        remaining_ms=DEADLINE_MS,
    )
    report: EngineReport | None = None
    output_tokens = 0
    started_s = time.perf_counter()
    async with client.open(request) as stream:
        async for group in stream:
            output_tokens += len(group.token_ids)
            report = group.report or report
    client_ms = (time.perf_counter() - started_s) * 1000
    if report is None:
        raise UnansweredError("the replica ended the stream without a report")
    return Sample(
        client_ms,
        report.queue_us / 1000,
        report.prefill_us / 1000,
        report.decode_us / 1000,
        0.0,
        len(prompt),
        report.cached_tokens,
        output_tokens,
    )
