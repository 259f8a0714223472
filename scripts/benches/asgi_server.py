"""Which ASGI server carries the request plane: uvicorn against granian, both over HTTP/1.1.

Each serves the real application with an engine that answers at once. Rounds are interleaved, and
throughput is counted per second of processor time of the served side (threads and children
included), because the wall clock on a shared machine also measures the neighbours. A reset is a
connection broken in the middle: noticed when the handler is told, which is when a sequence would
leave the batch.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import psutil

from scripts.benches.asgi_worker import ADDRESS, OPEN_STREAM
from scripts.benches.editing import EditingSession, editing_sessions
from scripts.benches.http_client import HttpConnection
from scripts.benches.paths import COMPLETIONS
from scripts.benches.report import Report, quantile
from scripts.stack.engine import EngineSource, engine_dir

DESCRIPTION = "uvicorn against granian: throughput, latency, and how fast a reset is noticed"
SERVERS = ("uvicorn", "granian")
CONCURRENCY = (1, 16)
REWIND_CHARS = 200
"""A session that has typed all of its missing part types the end of it again."""
START_LIMIT_S = 30.0
NOTICE_LIMIT_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--engine-dir", type=Path, default=engine_dir(EngineSource()))
    parser.add_argument("--port", type=int, default=9390, help="first of two ports (default 9390)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--requests", type=int, default=2000, help="requests of one measurement")
    parser.add_argument("--resets", type=int, default=50, help="resets of each kind and server")


@dataclass
class Served:
    """A server that runs: where, and as which process."""

    port: int
    process: asyncio.subprocess.Process
    family: list[psutil.Process]

    def processor_s(self) -> float:
        """Processor time that it has used, all its processes together."""
        times = [member.cpu_times() for member in self.family]
        return sum(each.user + each.system for each in times)

    async def next_left_ns(self) -> int | None:
        """When the next reset was noticed; None when that takes longer than the limit."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(NOTICE_LIMIT_S):
                while line := await self.process.stdout.readline():
                    if line.startswith(b"left "):
                        return int(line.split()[1])
        except TimeoutError:
            pass
        return None


@dataclass
class Load:
    """One measurement of throughput and latency."""

    per_core_s: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)


@dataclass
class Resets:
    """Resets of one kind: how many were noticed and after how long."""

    sent: int = 0
    noticed_ms: list[float] = field(default_factory=list)


def run(arguments: argparse.Namespace) -> Report:
    """Measures both servers and reports side by side."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> Report:
    loads = {(server, count): Load() for server in SERVERS for count in CONCURRENCY}
    resets = {(server, kind): Resets() for server in SERVERS for kind in ("plain", "stream")}
    rng = random.Random(arguments.seed)
    sessions = list(islice(editing_sessions(arguments.seed), max(CONCURRENCY)))
    never_answered = sessions[0].body(mode="line", max_tokens=1, deadline_ms=800)
    for _ in range(arguments.rounds):
        for server in rng.sample(SERVERS, len(SERVERS)):
            async with _served(server, arguments) as served:
                for count in CONCURRENCY:
                    load = loads[server, count]
                    await _load(served, sessions[:count], arguments.requests, load)
                for kind in ("plain", "stream"):
                    count = -(-arguments.resets // arguments.rounds)
                    pauses_s = [rng.uniform(0.01, 0.05) for _ in range(count)]
                    await _reset(served, never_answered, kind, pauses_s, resets[server, kind])
    return _report(arguments.seed, loads, resets)


@asynccontextmanager
async def _served(server: str, arguments: argparse.Namespace) -> AsyncIterator[Served]:
    """A server process that answers, stopped at the block's end."""
    port = arguments.port + SERVERS.index(server)
    command = [
        *(sys.executable, "-m", "scripts.benches.asgi_worker", "--server", server),
        *("--port", str(port), "--engine-dir", str(arguments.engine_dir)),
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        await _until_it_answers(port, process)
        parent = psutil.Process(process.pid)
        yield Served(port, process, [parent, *parent.children(recursive=True)])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _until_it_answers(port: int, process: asyncio.subprocess.Process) -> None:
    end_s = time.monotonic() + START_LIMIT_S
    while True:
        try:
            (await HttpConnection.open(ADDRESS, port)).reset()
        except OSError:
            if process.returncode is not None or time.monotonic() > end_s:
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def _load(served: Served, sessions: list[EditingSession], requests: int, load: Load) -> None:
    """Sessions type on at once, each on its connection; the first keystrokes are not counted."""
    connections = [await HttpConnection.open(ADDRESS, served.port) for _ in sessions]
    share = requests // len(sessions)

    async def type_on(keystrokes: int) -> list[float]:
        async def one(connection: HttpConnection, session: EditingSession) -> list[float]:
            return [await _ask(connection, session) for _ in range(keystrokes)]

        pairs = zip(connections, sessions, strict=True)
        return list(chain.from_iterable(await asyncio.gather(*(one(*pair) for pair in pairs))))

    await type_on(max(1, share // 10))
    before_s = served.processor_s()
    load.latencies_ms += await type_on(share)
    load.per_core_s.append(share * len(sessions) / (served.processor_s() - before_s))
    for connection in connections:
        connection.reset()


async def _ask(connection: HttpConnection, session: EditingSession) -> float:
    if session.cursor == session.suffix_start:
        session.cursor -= REWIND_CHARS
    session.type(1)
    body = session.body(mode="line", max_tokens=32, deadline_ms=800)
    started_s = time.perf_counter()
    answer = await connection.post(COMPLETIONS, body)
    if answer.json().get("outcome") != "shown_candidate":
        raise RuntimeError(f"status {answer.status}, outcome {answer.json().get('outcome')}")
    return (answer.finished_s - started_s) * 1000


async def _reset(
    served: Served, body: bytes, kind: str, pauses_s: list[float], into: Resets
) -> None:
    """Breaks connections in the middle, one after another, each after its pause."""
    path = OPEN_STREAM if kind == "stream" else COMPLETIONS
    for pause_s in pauses_s:
        connection = await HttpConnection.open(ADDRESS, served.port)
        connection.send(path, body)
        await asyncio.sleep(pause_s)
        reset_ns = time.monotonic_ns()
        connection.reset()
        into.sent += 1
        left_ns = await served.next_left_ns()
        if left_ns is not None:
            into.noticed_ms.append((left_ns - reset_ns) / 1e6)


def _report(
    seed: int, loads: dict[tuple[str, int], Load], resets: dict[tuple[str, str], Resets]
) -> Report:
    report = Report("asgi-server", seed)
    columns = ("server", "concurrent", "requests per core second", "p50 ms", "p99 ms")
    rows = [
        (
            server,
            count,
            quantile(load.per_core_s, 0.5),
            quantile(load.latencies_ms, 0.5),
            quantile(load.latencies_ms, 0.99),
        )
        for (server, count), load in loads.items()
    ]
    report.table("Whole pipeline, instant engine", columns, rows)
    reset_rows = [
        (
            server,
            kind,
            f"{len(each.noticed_ms)} of {each.sent}",
            quantile(each.noticed_ms, 0.5),
            quantile(each.noticed_ms, 0.99),
        )
        for (server, kind), each in resets.items()
    ]
    report.table("Resets", ("server", "kind", "noticed", "p50 ms", "p99 ms"), reset_rows)
    keys = ("per_core_s", "p50_ms", "p99_ms")
    for server, count, *values in rows:
        report.figures[f"{server}_{count}"] = dict(zip(keys, values, strict=True))
    for server, kind, noticed, p50, p99 in reset_rows:
        report.figures[f"{server}_reset_{kind}"] = {
            "noticed": noticed,
            "p50_ms": p50,
            "p99_ms": p99,
        }
    _goals(report, loads, resets)
    return report


def _goals(
    report: Report, loads: dict[tuple[str, int], Load], resets: dict[tuple[str, str], Resets]
) -> None:
    """What the chosen server, uvicorn, is held to."""
    chosen = SERVERS[0]
    rate = quantile(loads[chosen, max(CONCURRENCY)].per_core_s, 0.5)
    report.goal(
        f"{chosen} carries the whole pipeline",
        "at least 400 requests per core second",
        f"{rate:.0f}",
        met=rate >= 400,
    )
    for kind in ("plain", "stream"):
        each = resets[chosen, kind]
        report.goal(
            f"{chosen} tells the handler of every reset ({kind})",
            f"{each.sent} of {each.sent}",
            f"{len(each.noticed_ms)}",
            met=len(each.noticed_ms) == each.sent,
        )
