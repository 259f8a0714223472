"""Replays typing sessions over HTTP at the edge, and what the stack says of them."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from scripts.benches.http_client import HttpConnection
from scripts.benches.keystrokes import Kind, Moment
from scripts.benches.paths import COMPLETIONS, DEADLINE_MS
from scripts.benches.report import quantile
from scripts.benches.typing_sessions import TypingSession
from scripts.stack.api import RunningStack

LINE_TOKENS = 32


@dataclass(frozen=True)
class Reply:
    """One request: what was done before it, how long the client waited, and its prompt's tokens."""

    kind: Kind
    client_ms: float
    prompt_tokens: int
    cached_tokens: int


@dataclass
class Replies:
    """All requests of one replay; `without_figures` counts, by outcome, those without the engine's
    figures, which are in no other number."""

    answered: list[Reply] = field(default_factory=list)
    without_figures: dict[str, int] = field(default_factory=dict)

    def of(self, kinds: Iterable[Kind]) -> "Replies":
        """The answered ones after certain kinds of key."""
        chosen = set(kinds)
        return Replies([reply for reply in self.answered if reply.kind in chosen])

    def joined(self, other: "Replies") -> "Replies":
        """These and the others."""
        counts = Counter(self.without_figures) + Counter(other.without_figures)
        return Replies(self.answered + other.answered, dict(counts))

    @property
    def missing(self) -> int:
        """Requests without the engine's figures."""
        return sum(self.without_figures.values())

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(reply.prompt_tokens for reply in self.answered)

    @property
    def computed_tokens(self) -> int:
        """Those that the engine had to compute."""
        return self.prompt_tokens - sum(reply.cached_tokens for reply in self.answered)

    @property
    def cached_share(self) -> float:
        """Share of prompt tokens served from the cache, 0 to 1; NaN without prompts."""
        return 1 - self.computed_tokens / self.prompt_tokens if self.answered else float("nan")

    def latency_ms(self, share: float) -> float:
        """A quantile of what clients waited."""
        return quantile([reply.client_ms for reply in self.answered], share)


async def ask(
    connection: HttpConnection, session: TypingSession, moment: Moment, replies: Replies
) -> None:
    """One request, noted in `replies`."""
    body = session.body(moment, max_tokens=LINE_TOKENS, deadline_ms=DEADLINE_MS)
    started_s = time.perf_counter()
    answer = await connection.post(COMPLETIONS, body)
    client_ms = (answer.finished_s - started_s) * 1000
    content = answer.json() if answer.status == 200 else None
    usage: dict[str, Any] = content["usage"] if content else {"cached_tokens": None}
    if usage["cached_tokens"] is None:
        outcome = content["outcome"] if content else f"status {answer.status}"
        replies.without_figures[outcome] = replies.without_figures.get(outcome, 0) + 1
        return
    replies.answered.append(
        Reply(moment.kind, client_ms, usage["prompt_tokens"], usage["cached_tokens"])
    )


async def replay(
    port: int, sessions: Sequence[TypingSession], debounce_ms: float, *, at_once: int
) -> Replies:
    """All requests of the sessions, `at_once` of them, each as soon as the last one is answered."""
    replies, waiting = Replies(), list(reversed(sessions))

    async def typist() -> None:
        connection = await HttpConnection.open("127.0.0.1", port)
        try:
            while waiting:
                session = waiting.pop()
                for moment in session.requests(debounce_ms):
                    await ask(connection, session, moment, replies)
        finally:
            connection.reset()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(typist())
    return replies


def counter(stack: RunningStack, name: str, label: str) -> dict[str, float]:
    """A counter of all workers together, summed by the values of one label."""
    totals: dict[str, float] = {}
    for url in stack.worker_metrics_urls:
        text = httpx.get(f"{url}/metrics", timeout=5).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name:
                    value = sample.labels[label]
                    totals[value] = totals.get(value, 0) + sample.value
    return totals
