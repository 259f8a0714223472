"""Cancels at random moments: what the engine computes after one, and what stays behind.

An editor cancels by breaking its connection. The reset goes through Envoy, the orchestrator and
Envoy again to the replica, which notices it between two steps of the engine. Measured are the
tokens decoded after the replica could know of it (by the replica's own count), the time from the
client's reset to the abort in the engine, whether the batch is empty afterwards, and whether any
process grows over thousands of cancels.
"""

import argparse
import asyncio
import json
import random
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from scripts.benches.editing import EditingSession, editing_sessions
from scripts.benches.http_client import HttpConnection
from scripts.benches.paths import COMPLETIONS, DEADLINE_MS, WIDE_LIMITS
from scripts.benches.processes import is_quiet, resident_mib, until
from scripts.benches.report import Report, quantile
from scripts.stack.api import RunningStack, running_stack

DESCRIPTION = "requests reset at random moments, through Envoy: what is decoded after, what leaks"
BLOCK_TOKENS = 192
CONCURRENCY, SESSIONS_EACH = 4, 16
LONGEST_WAIT_S = 0.05
CACHE_MIB = 32
"""A cache that is full during the warm-up: until then its pages count as growth."""
READ_EVERY = 1000
WARM_UP_CANCELS = 8000
"""Growth is counted from their end: the inference library keeps something for each shape of a
batch that it meets. Alone with 4 sequences at once it grew by 12 MiB over the first 4,000 cancels
and by 3 over the next 5,000; one sequence at a time it did not grow at all."""
GROWTH_MIB_MAX = 8.0
"""A leak of 1.7 KiB a cancel would show as 8 MiB over 5,000."""
QUIET_LIMIT_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--resets", type=int, default=200, help="requests reset one by one")
    parser.add_argument("--memory-cancels", type=int, default=5000, help="0 leaves this part out")


@dataclass(frozen=True)
class Cancelled:
    """One cancelled sequence, as the replica traced it."""

    tokens_after_cancel: int
    reset_to_abort_ms: float
    tokens_before: int


class Traces:
    """Reads what the replicas append to their trace files."""

    def __init__(self, stack: RunningStack) -> None:
        paths = [stack.folder.trace_of(replica.name) for replica in stack.replicas]
        self._files = [path.open(encoding="utf-8") for path in paths]

    def new(self) -> list[dict[str, Any]]:
        """Lines since the last call."""
        return [json.loads(line) for file in self._files for line in file]


def ended_us(line: dict[str, Any]) -> int:
    """When a traced sequence left the batch, on the clock of time.monotonic."""
    return int(line["accepted_us"] + line["queue_us"] + line["prefill_us"] + line["decode_us"])


async def reset_at_random(
    port: int, session: EditingSession, rng: random.Random, longest_s: float
) -> tuple[int, int]:
    """Asks for a block and breaks the connection at a random moment; when it did both, in us."""
    connection = await HttpConnection.open("127.0.0.1", port)
    body = session.body(mode="block", max_tokens=BLOCK_TOKENS, deadline_ms=DEADLINE_MS)
    sent_us = time.monotonic_ns() // 1000
    connection.send(COMPLETIONS, body)
    await asyncio.sleep(rng.uniform(0, longest_s))
    reset_us = time.monotonic_ns() // 1000
    connection.reset()
    return sent_us, reset_us


async def whole_request_s(port: int, sessions: Iterator[EditingSession]) -> float:
    """The median time of requests that nobody cancels."""
    times = []
    for _ in range(15):
        connection = await HttpConnection.open("127.0.0.1", port)
        body = next(sessions).body(mode="block", max_tokens=BLOCK_TOKENS, deadline_ms=DEADLINE_MS)
        started_s = time.perf_counter()
        await connection.post(COMPLETIONS, body)
        times.append(time.perf_counter() - started_s)
        connection.reset()
    return quantile(times, 0.5)


async def one_by_one(stack: RunningStack, resets: int, seed: int) -> list[Cancelled]:
    """Resets one request after the other; those that had ended before their reset are left out."""
    sessions, rng, traces = editing_sessions(seed), random.Random(seed), Traces(stack)
    longest_s = await whole_request_s(stack.config.edge_port, sessions)
    traces.new()
    moments = []
    for _ in range(resets):
        port = stack.config.edge_port
        moments.append(await reset_at_random(port, next(sessions), rng, longest_s))
        if not await until(lambda: is_quiet(stack), QUIET_LIMIT_S):
            raise RuntimeError(f"a sequence still lives {QUIET_LIMIT_S} s after its reset")
    lines = [line for line in traces.new() if line["finish_reason"] == "cancelled"]
    return [_cancelled(line, moments) for line in lines]


def _cancelled(line: dict[str, Any], moments: list[tuple[int, int]]) -> Cancelled:
    """A traced sequence with the reset that cancelled it: of the request sent last before it."""
    sent = bisect_right(moments, line["accepted_us"], key=lambda moment: moment[0])
    _, reset_us = moments[sent - 1]
    delay_ms = (ended_us(line) - reset_us) / 1000
    return Cancelled(line["tokens_after_cancel"], delay_ms, line["output_tokens"])


async def many(stack: RunningStack, cancels: int, seed: int) -> dict[str, list[float]]:
    """Cancels in several sessions at once; resident MiB by process, a reading every thousand.

    The same sessions type on, as developers do: what a new session adds to the bounded tables of
    a worker is not what is looked for here.
    """
    rng = random.Random(seed)
    sessions = list(islice(editing_sessions(seed * 100), CONCURRENCY * SESSIONS_EACH))
    readings: dict[str, list[float]] = {}
    done = 0

    async def some(own: list[EditingSession], count: int) -> None:
        for number in range(count):
            session = own[number % len(own)]
            session.type(1)
            await reset_at_random(stack.config.edge_port, session, rng, LONGEST_WAIT_S)

    while done < WARM_UP_CANCELS + cancels:
        share = min(READ_EVERY, WARM_UP_CANCELS + cancels - done) // CONCURRENCY
        own = [sessions[number::CONCURRENCY] for number in range(CONCURRENCY)]
        await asyncio.gather(*(some(each, share) for each in own))
        done += share * CONCURRENCY
        await until(lambda: is_quiet(stack), QUIET_LIMIT_S)
        for name, mib in resident_mib(stack).items():
            readings.setdefault(name, []).append(mib)
    return readings


def _report_resets(report: Report, cancelled: list[Cancelled], resets: int) -> None:
    in_prefill = [c.reset_to_abort_ms for c in cancelled if not c.tokens_before]
    in_decode = [c.reset_to_abort_ms for c in cancelled if c.tokens_before]
    after = [sequence.tokens_after_cancel for sequence in cancelled]
    worst = max(after, default=0)
    rows: list[tuple[object, ...]] = [
        ("cancelled in the engine", len(cancelled), "", ""),
        (
            "ended before the reset, or reset before the engine saw it",
            resets - len(cancelled),
            "",
            "",
        ),
        ("tokens decoded after the cancel arrived", *_spread(after)),
        (f"ms from reset to abort, in prefill ({len(in_prefill)})", *_spread(in_prefill)),
        (f"ms from reset to abort, in decode ({len(in_decode)})", *_spread(in_decode)),
    ]
    report.table("Requests reset one by one", ("", "p50", "p99", "max"), rows)
    report.figures["resets"] = {
        "cancelled": len(cancelled),
        "tokens_after_cancel_max": worst,
        "prefill_reset_to_abort_ms_p50": quantile(in_prefill, 0.5),
        "decode_reset_to_abort_ms_p50": quantile(in_decode, 0.5),
        "decode_reset_to_abort_ms_p99": quantile(in_decode, 0.99),
    }
    report.goal("tokens after a cancel", "at most one step", f"{worst}", met=worst <= 1)
    enough = len(cancelled) >= 50
    report.goal("cancels that reached a live sequence", ">= 50", f"{len(cancelled)}", met=enough)


def _spread(values: list[Any]) -> tuple[float, float, float]:
    return quantile(values, 0.5), quantile(values, 0.99), max(values, default=float("nan"))


def _report_memory(report: Report, readings: dict[str, list[float]]) -> None:
    rows, growth = [], {}
    for name, mib in readings.items():
        warm = mib[WARM_UP_CANCELS // READ_EVERY - 1]
        growth[name] = mib[-1] - warm
        rows.append((name, mib[0], warm, mib[-1], growth[name]))
    columns = ("process", "MiB after 1,000", f"after {WARM_UP_CANCELS:,}", "at the end", "growth")
    report.table("Resident memory over the cancels", columns, rows)
    report.figures["memory_mib"] = readings
    worst = max(growth.values())
    limit = f"< {GROWTH_MIB_MAX:.0f} MiB in any process"
    report.goal("growth", limit, f"{worst:.1f} MiB", met=worst < GROWTH_MIB_MAX)


async def measure(stack: RunningStack, arguments: argparse.Namespace) -> Report:
    """The whole bench on a running stack."""
    report = Report("cancel", arguments.seed)
    cancelled = await one_by_one(stack, arguments.resets, arguments.seed)
    _report_resets(report, cancelled, arguments.resets)
    if arguments.memory_cancels:
        _report_memory(report, await many(stack, arguments.memory_cancels, arguments.seed))
    quiet = await until(lambda: is_quiet(stack), QUIET_LIMIT_S)
    report.goal("batch and queue empty afterwards", "yes", "yes" if quiet else "no", met=quiet)
    return report


def run(arguments: argparse.Namespace) -> Report:
    """Starts a stack of its own, measures, stops it."""
    with running_stack(cache_mib=CACHE_MIB, trace=True, worker_limits=WIDE_LIMITS) as stack:
        return asyncio.run(measure(stack, arguments))
