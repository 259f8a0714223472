"""A replica drained, and one killed, under typing sessions: what the developers notice.

All sessions type on through the edge while the event happens. A session that has to move pays one
cold prefill; how many had to is what the replica held warm before. An editor never sees an error:
whatever fails is an empty answer, counted here as failed.
"""

import argparse
import asyncio
import random
import statistics
import time
from dataclasses import dataclass, field
from itertools import islice

import httpx

from scripts.benches.editing import EditingSession, editing_sessions
from scripts.benches.http_client import HttpConnection
from scripts.benches.paths import COMPLETIONS, DEADLINE_MS, WIDE_LIMITS
from scripts.benches.processes import load_of
from scripts.benches.report import Report, quantile
from scripts.stack.api import RunningStack, running_stack

DESCRIPTION = "a replica drained and one killed under typing sessions: errors, moves, added latency"
LINE_TOKENS = 24
COLD_PROBES = 12
REWIND_CHARS = 150
"""A session that has typed all of its missing part types the end of it again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--before-s", type=float, default=25.0, help="typing before the event")
    parser.add_argument("--after-s", type=float, default=25.0, help="typing after the event")
    parser.add_argument("--pause-s", type=float, default=5.0, help="mean pause between requests")


@dataclass(frozen=True)
class Answered:
    """One request of a session, times on the monotonic clock."""

    sent_s: float
    latency_ms: float
    status: int
    outcome: str
    cached_share: float | None


@dataclass
class Typist:
    """One session that types until told to stop, and what it was answered."""

    session: EditingSession
    rng: random.Random
    answers: list[Answered] = field(default_factory=list)

    async def type_on(self, port: int, pause_s: float, stop: asyncio.Event) -> None:
        """Asks for a line after each pause, on one connection."""
        connection = await HttpConnection.open("127.0.0.1", port)
        start = self.session.cursor
        while not stop.is_set():
            await asyncio.sleep(self.rng.expovariate(1 / pause_s))
            if self.session.cursor >= self.session.suffix_start:
                self.session.cursor = max(start, self.session.cursor - REWIND_CHARS)
            self.session.type(self.rng.randint(1, 3))
            self.answers.append(await ask(connection, self.session))
        connection.reset()

    def first_after(self, event_s: float) -> Answered | None:
        """The first answer with the engine's figures after the event."""
        later = (a for a in self.answers if a.sent_s >= event_s and a.cached_share is not None)
        return next(later, None)

    def warm_before_ms(self, event_s: float) -> float:
        """The median of its warm answers before the event; NaN without one."""
        warm = [a.latency_ms for a in self.answers if a.sent_s < event_s and (a.cached_share or 0)]
        return statistics.median(warm) if warm else float("nan")


async def ask(connection: HttpConnection, session: EditingSession) -> Answered:
    """One line through the edge."""
    body = session.body(mode="line", max_tokens=LINE_TOKENS, deadline_ms=DEADLINE_MS)
    sent_s = time.monotonic()
    answer = await connection.post(COMPLETIONS, body)
    latency_ms = (time.monotonic() - sent_s) * 1000
    content = answer.json()
    usage = content["usage"]
    known = bool(usage["prompt_tokens"]) and usage["cached_tokens"] is not None
    share = usage["cached_tokens"] / usage["prompt_tokens"] if known else None
    return Answered(sent_s, latency_ms, answer.status, content["outcome"], share)


@dataclass(frozen=True)
class Outcome:
    """What one event did."""

    requests: int
    errors: int
    failed: int
    had_to_move: int
    moved: int
    went_on: bool
    added_ms: list[float]
    cold_ms: list[float]


async def through(stack: RunningStack, event: str, arguments: argparse.Namespace) -> Outcome:
    """Sessions type, the event strikes the first replica, they type on."""
    rng = random.Random(arguments.seed)
    sessions = list(islice(editing_sessions(arguments.seed), arguments.sessions))
    typists = [Typist(session, random.Random(rng.random())) for session in sessions]
    stop, port = asyncio.Event(), stack.config.edge_port
    async with asyncio.TaskGroup() as group:
        for typist in typists:
            group.create_task(typist.type_on(port, arguments.pause_s, stop))
        await asyncio.sleep(arguments.before_s)
        had_to_move = load_of(stack.replicas[0].status_url)["warm_sessions"]
        event_s = time.monotonic()
        await strike(stack, event)
        await asyncio.sleep(arguments.after_s)
        stop.set()
    cold_ms = await cold_prefills(port, arguments.seed + 1)
    return _outcome(typists, event_s, had_to_move, cold_ms)


async def strike(stack: RunningStack, event: str) -> None:
    """Drains the first replica by the control plane's API, or stops its process with SIGKILL."""
    victim = stack.replicas[0]
    if event == "killed":
        stack.kill(victim.name)
        return
    url = f"{stack.control_plane_status_url}/v1/replicas/{victim.slot}/drain"
    async with httpx.AsyncClient() as client:
        (await client.post(url, json={"force": True})).raise_for_status()


async def cold_prefills(port: int, seed: int) -> list[float]:
    """Latencies of new sessions, one after the other, when nobody else types."""
    connection = await HttpConnection.open("127.0.0.1", port)
    answers = [await ask(connection, s) for s in islice(editing_sessions(seed), COLD_PROBES)]
    connection.reset()
    return [answer.latency_ms for answer in answers]


def _outcome(
    typists: list[Typist], event_s: float, had_to_move: int, cold_ms: list[float]
) -> Outcome:
    answers = [answer for typist in typists for answer in typist.answers]
    firsts = [(typist, typist.first_after(event_s)) for typist in typists]
    moved = [(t, first) for t, first in firsts if first is not None and first.cached_share == 0]
    return Outcome(
        requests=len(answers),
        errors=sum(answer.status != 200 for answer in answers),
        failed=sum(answer.outcome == "failed" for answer in answers),
        had_to_move=had_to_move,
        moved=len(moved),
        went_on=all(first is not None for _, first in firsts),
        added_ms=[first.latency_ms - typist.warm_before_ms(event_s) for typist, first in moved],
        cold_ms=cold_ms,
    )


def _report(report: Report, event: str, outcome: Outcome) -> None:
    added, cold = quantile(outcome.added_ms, 0.5), quantile(outcome.cold_ms, 0.5)
    rows: list[tuple[object, ...]] = [
        ("requests", outcome.requests),
        ("errors that an editor saw", outcome.errors),
        ("requests lost with the replica (empty answers)", outcome.failed),
        ("sessions warm on the replica: had to move", outcome.had_to_move),
        ("sessions that moved", outcome.moved),
        ("added latency of a moved session's first request, p50, ms", added),
        ("the same, p95, ms", quantile(outcome.added_ms, 0.95)),
        ("one cold request on an idle replica, p50, ms", cold),
    ]
    report.table(f"A replica is {event}", ("", ""), rows)
    report.figures[event] = {
        "requests": outcome.requests,
        "errors": outcome.errors,
        "failed": outcome.failed,
        "had_to_move": outcome.had_to_move,
        "moved": outcome.moved,
        "added_ms_p50": added,
        "added_ms_p95": quantile(outcome.added_ms, 0.95),
        "cold_ms_p50": cold,
    }
    report.goal(f"{event}: errors", "0", f"{outcome.errors}", met=outcome.errors == 0)
    lost_max = 0 if event == "drained" else 5
    limit = f"at most {lost_max}"
    report.goal(f"{event}: lost", limit, f"{outcome.failed}", met=outcome.failed <= lost_max)
    went_on = "yes" if outcome.went_on else "no"
    report.goal(f"{event}: every session goes on", "yes", went_on, met=outcome.went_on)
    only = outcome.moved <= outcome.had_to_move
    of = f"{outcome.moved} of {outcome.had_to_move}"
    report.goal(f"{event}: only sessions that had to move", "moved <= had to", of, met=only)
    measured = f"{added:.0f} against {cold:.0f} ms"
    met = added <= cold
    report.goal(f"{event}: added latency, p50", "one cold request", measured, met=met)


def run(arguments: argparse.Namespace) -> Report:
    """A stack for each event, so that neither finds the other's traces."""
    report = Report("drain", arguments.seed)
    for event in ("drained", "killed"):
        with running_stack(cache_mib=512, worker_limits=WIDE_LIMITS) as stack:
            outcome = asyncio.run(through(stack, event, arguments))
        _report(report, event, outcome)
    return report
