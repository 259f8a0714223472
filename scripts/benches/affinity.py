"""What consistent hashing is worth: the same sessions over two replicas, by placement.

Several developers type at once, in the rhythm of the trace; each placement gets the same requests
on a stack of its own. Twice: with a cache that holds every session on every replica, and with one
that holds them only where each session stays on one replica, which is what a fleet is sized for.
"""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final, Literal

from scripts.benches.http_client import HttpConnection
from scripts.benches.keystrokes import DEBOUNCE_MS
from scripts.benches.paths import WIDE_LIMITS
from scripts.benches.processes import load_of
from scripts.benches.replay import Replies, ask, counter
from scripts.benches.report import Report
from scripts.benches.typing_sessions import FUNCTIONS_PER_DOCUMENT, TypingSession, typing_sessions
from scripts.stack.api import RunningStack, running_stack

DESCRIPTION = "hit rate, latency and prefill of typing sessions with consistent hashing and without"
Placement = Literal["maglev", "ring_hash", "round_robin"]
PLACEMENTS: Final[tuple[Placement, ...]] = ("maglev", "ring_hash", "round_robin")
ROOMY_MIB = 512
PAUSE_MAX_S = 0.4
"""Longer pauses of the trace are cut to it: a run is short, and the load higher than in life."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--sessions", type=int, default=10, help="developers who type at once")
    parser.add_argument("--requests", type=int, default=40, help="of each of them")
    parser.add_argument("--debounce-ms", type=float, default=DEBOUNCE_MS, help="of the editor")
    parser.add_argument(
        "--tight-mib", type=int, default=32, help="cache of a replica that must not hold them all"
    )
    parser.add_argument("--placements", nargs="+", default=PLACEMENTS, choices=PLACEMENTS)


@dataclass(frozen=True)
class Outcome:
    """What one placement made of the sessions. `placed` counts requests by where their session's
    prefix was when they came, `finished` those that each replica served."""

    placement: Placement
    cache_mib: int
    replies: Replies
    prefill_tokens: int
    evictions: int
    placed: dict[str, float]
    finished: list[int]


async def type_on(
    port: int, session: TypingSession, arguments: argparse.Namespace, replies: Replies
) -> None:
    """One developer: pauses as in the trace, each request after the answer to the last one."""
    connection = await HttpConnection.open("127.0.0.1", port)
    moments = list(islice(session.requests(arguments.debounce_ms), arguments.requests))
    pauses_ms = [later.at_ms - earlier.at_ms for earlier, later in pairwise(moments)]
    try:
        for moment, pause_ms in zip(moments, [*pauses_ms, 0.0], strict=True):
            await ask(connection, session, moment, replies)
            await asyncio.sleep(min(pause_ms / 1000, PAUSE_MAX_S))
    finally:
        connection.reset()


async def type_together(
    port: int, sessions: Sequence[TypingSession], arguments: argparse.Namespace
) -> Replies:
    """All of them at once."""
    replies = Replies()
    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(type_on(port, session, arguments, replies))
    return replies


def measure(
    placement: Placement,
    cache_mib: int,
    sessions: Sequence[TypingSession],
    arguments: argparse.Namespace,
) -> Outcome:
    """The sessions on a stack of their own."""
    with running_stack(
        cache_mib=cache_mib, worker_limits=WIDE_LIMITS, placement=placement
    ) as stack:
        before = _loads(stack)
        replies = asyncio.run(type_together(stack.config.edge_port, sessions, arguments))
        after = _loads(stack)
        return Outcome(
            placement,
            cache_mib,
            replies,
            _risen(before, after, "prompt_tokens_computed_total"),
            _risen(before, after, "cache_evictions_total"),
            counter(stack, "warmline_affinity_requests_total", "placement"),
            [load["finished_total"] for load in after],
        )


def _loads(stack: RunningStack) -> list[dict[str, Any]]:
    return [load_of(replica.status_url) for replica in stack.replicas]


def _risen(before: list[dict[str, Any]], after: list[dict[str, Any]], name: str) -> int:
    return sum(int(load[name]) for load in after) - sum(int(load[name]) for load in before)


def run(arguments: argparse.Namespace) -> Report:
    """Measures each placement with each cache."""
    functions = arguments.sessions * FUNCTIONS_PER_DOCUMENT
    sessions = typing_sessions(arguments.seed, functions)
    report = Report("affinity", arguments.seed)
    for name, cache_mib in (("roomy", ROOMY_MIB), ("tight", arguments.tight_mib)):
        outcomes = [
            measure(placement, cache_mib, sessions, arguments) for placement in arguments.placements
        ]
        _report_outcomes(report, name, outcomes)
    report.notes.append(
        f"{arguments.sessions} developers type at once in documents of their own, two replicas, "
        f"{arguments.requests} requests each; cached % is of all prompt tokens, warm % of requests "
        "that met the replica of their session's last one; times in ms."
    )
    return report


def _report_outcomes(report: Report, name: str, outcomes: Sequence[Outcome]) -> None:
    columns = (
        "placement",
        "requests",
        "cached %",
        "warm %",
        "p50",
        "p95",
        "prefill tokens",
        "evictions",
        "by replica",
    )
    rows: list[tuple[object, ...]] = []
    for outcome in outcomes:
        replies, placed = outcome.replies, sum(outcome.placed.values())
        row = (
            len(replies.answered),
            100 * replies.cached_share,
            100 * outcome.placed.get("warm", 0) / placed if placed else float("nan"),
            replies.latency_ms(0.5),
            replies.latency_ms(0.95),
            outcome.prefill_tokens,
            outcome.evictions,
            " / ".join(map(str, outcome.finished)),
        )
        rows.append((outcome.placement, *row))
        report.figures[f"{outcome.placement}, {name} cache"] = {
            **dict(zip(columns[1:], row, strict=True)),
            "cache_mib": outcome.cache_mib,
            "placed": outcome.placed,
            "without_figures": replies.without_figures,
        }
    report.table(f"{name.capitalize()} cache: {outcomes[0].cache_mib} MiB a replica", columns, rows)
    _report_goals(report, name, {outcome.placement: outcome for outcome in outcomes})


def _report_goals(report: Report, name: str, outcomes: dict[Placement, Outcome]) -> None:
    """Consistent hashing must find more in the cache, and prefill less, than round robin."""
    missing = sum(outcome.replies.missing for outcome in outcomes.values())
    report.goal(f"{name} cache: requests without figures", "0", str(missing), met=missing == 0)
    if not {"maglev", "round_robin"} <= outcomes.keys():
        return
    ours, theirs = outcomes["maglev"], outcomes["round_robin"]
    shares = [100 * each.replies.cached_share for each in (ours, theirs)]
    report.goal(
        f"{name} cache: cached share above round robin's",
        f"> {shares[1]:.1f} %",
        f"{shares[0]:.1f} %",
        met=shares[0] > shares[1],
    )
    report.goal(
        f"{name} cache: prefill tokens below round robin's",
        f"< {theirs.prefill_tokens}",
        str(ours.prefill_tokens),
        met=ours.prefill_tokens < theirs.prefill_tokens,
    )
