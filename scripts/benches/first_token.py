"""Cold and warm times to the first token and to the whole line, and what we add to the engine's.

Every session is new to every cache (cold), then types on (warm). The same composed prompt goes by
HTTP through Envoy, the orchestrator and Envoy again, and straight to a replica; which goes first is
drawn, so that neither finds the machine in another state. A request for one token measures the
first token, because a line is answered by one response.
"""

import argparse
import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.generation.triton import TritonClient
from scripts.benches.editing import EditingSession, editing_sessions
from scripts.benches.http_client import HttpConnection
from scripts.benches.paths import (
    WIDE_LIMITS,
    Composer,
    Sample,
    UnansweredError,
    over_grpc,
    over_http,
    salt_of,
)
from scripts.benches.report import Report, quantile
from scripts.stack.api import RunningStack, running_stack

DESCRIPTION = "cold and warm first-token and whole-line times, through Envoy and straight to Triton"
FIRST_TOKEN, WHOLE_LINE = 1, 32
LONG_PROMPT_TOKENS = 1500
TYPING_PAUSE_S = 0.15
"""Mean pause between two keystrokes of one session."""

Key = tuple[str, str, str]
"""Way (editor, triton, envoy), cold or warm, first or line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 16], metavar="N")
    parser.add_argument(
        "--rounds", type=int, default=40, help="documents opened, by all sessions together"
    )
    parser.add_argument("--warm", type=int, default=5, help="keystrokes measured in each document")


@dataclass
class Samples:
    """Samples by way, warmth and length."""

    by_key: dict[Key, list[Sample]] = field(default_factory=dict)
    unanswered: int = 0

    def add(self, key: Key, sample: Sample) -> None:
        """Notes one sample."""
        self.by_key.setdefault(key, []).append(sample)

    def values(self, key: Key, what: str = "client_ms") -> list[float]:
        """One field of all samples under `key`."""
        return [getattr(sample, what) for sample in self.by_key.get(key, [])]

    def p50(self, key: Key, what: str = "client_ms") -> float:
        """Its median."""
        return quantile(self.values(key, what), 0.5)


class Editor:
    """One session's connections: to the edge, and to the replica that serves it directly."""

    def __init__(self, composer: Composer, http: HttpConnection, replica: TritonClient) -> None:
        self._composer, self._http, self._replica = composer, http, replica

    async def ask(self, way: str, session: EditingSession, tokens: int) -> Sample:
        """One request on one of the ways."""
        if way == "editor":
            return await over_http(self._http, session, tokens)
        prompt = self._composer.prompt(session)
        return await over_grpc(self._replica, prompt, salt_of(session), tokens)


async def edit(
    editor: Editor,
    documents: Iterator[EditingSession],
    rng: random.Random,
    samples: Samples,
    arguments: argparse.Namespace,
    *,
    sessions: int,
) -> None:
    """Opens documents one after the other; in each, one cold request of a length, then keystrokes.

    Each length has a document of its own, because a document is cold only once.
    """
    for _ in range(max(3, arguments.rounds // sessions)):
        for length, tokens in (("first", FIRST_TOKEN), ("line", WHOLE_LINE)):
            session = next(documents)
            for keystroke in range(arguments.warm + 1):
                if sessions > 1:
                    await asyncio.sleep(rng.expovariate(1 / TYPING_PAUSE_S))
                ways = ["editor", "triton"]
                rng.shuffle(ways)
                for way in ways:
                    key = (way, "warm" if keystroke else "cold", length)
                    try:
                        samples.add(key, await editor.ask(way, session, tokens))
                    except UnansweredError:
                        samples.unanswered += 1
                session.type(rng.randint(1, 3))


async def at_concurrency(
    stack: RunningStack, composer: Composer, sessions: int, arguments: argparse.Namespace
) -> Samples:
    """All samples with `sessions` editing at once."""
    samples = Samples()
    replicas = [TritonClient(replica.address) for replica in stack.replicas]
    port = stack.config.edge_port
    http = [await HttpConnection.open("127.0.0.1", port) for _ in range(sessions)]
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(sessions):
                editor = Editor(composer, http[number], replicas[number % len(replicas)])
                seed = arguments.seed * 1000 + sessions * 100 + number
                documents = editing_sessions(seed)
                rng = random.Random(seed)
                group.create_task(
                    edit(editor, documents, rng, samples, arguments, sessions=sessions)
                )
    finally:
        for connection in http:
            connection.reset()
        for replica in replicas:
            await replica.close()
    return samples


async def long_prompts(stack: RunningStack, composer: Composer, seed: int, rounds: int) -> Samples:
    """Prompts of exactly 1,500 tokens, one session: straight to Triton and through Envoy."""
    samples = Samples()
    ways = {
        "triton": TritonClient(stack.replicas[0].address),
        "envoy": TritonClient(stack.inference_address),
    }
    documents = editing_sessions(seed * 1000 + 999)
    for _ in range(rounds):
        for way, client in ways.items():
            session = next(documents)
            prompt = composer.exactly(session.text, LONG_PROMPT_TOKENS + 4)
            for extra in range(5):
                ids = prompt[: LONG_PROMPT_TOKENS + extra]
                sample = await over_grpc(client, ids, salt_of(session), FIRST_TOKEN)
                samples.add((way, "warm" if extra else "cold", "first"), sample)
    for client in ways.values():
        await client.close()
    return samples


async def measure(stack: RunningStack, arguments: argparse.Namespace) -> Report:
    """The whole bench on a running stack."""
    composer = Composer(Path(stack.config.engine_dir))
    report = Report("first-token", arguments.seed)
    await at_concurrency(stack, composer, 2, argparse.Namespace(rounds=3, warm=3, seed=0))
    long = await long_prompts(stack, composer, arguments.seed, arguments.rounds)
    _report_long(report, long)
    for sessions in arguments.sessions:
        samples = await at_concurrency(stack, composer, sessions, arguments)
        _report_sessions(report, sessions, samples)
        if sessions == 1:
            _report_tax(report, samples)
    report.notes.append(
        "Client, Envoy, orchestrator and both replicas share the machine's cores; times in ms."
    )
    return report


def _report_long(report: Report, samples: Samples) -> None:
    rows = []
    for way, what, name in (
        ("triton", "prefill_ms", "engine (as it reports)"),
        ("triton", "client_ms", "straight to Triton"),
        ("envoy", "client_ms", "through Envoy"),
    ):
        cold, warm = (samples.p50((way, warmth, "first"), what) for warmth in ("cold", "warm"))
        rows.append((name, cold, warm, cold / warm))
        report.figures[f"long_{way}_{what}"] = {"cold_p50": cold, "warm_p50": warm}
    columns = ("first token", "cold p50", "warm p50", "cold / warm")
    report.table(f"A prompt of {LONG_PROMPT_TOKENS:,} tokens, one session", columns, rows)
    engine, envoy = rows[0][3], rows[2][3]
    report.goal("warm against cold in the engine", ">= 10x", f"{engine:.1f}x", met=engine >= 10)
    report.goal("warm against cold through Envoy", ">= 5x", f"{envoy:.1f}x", met=envoy >= 5)


def _report_sessions(report: Report, sessions: int, samples: Samples) -> None:
    rows: list[list[object]] = []
    figures: dict[str, object] = {}
    for warmth in ("cold", "warm"):
        for length in ("first", "line"):
            row: list[object] = [f"{warmth}, {'first token' if length == 'first' else 'line'}"]
            for way in ("editor", "triton"):
                key = (way, warmth, length)
                values = samples.values(key)
                row += [quantile(values, 0.5), quantile(values, 0.99)]
                figures["_".join(key)] = {
                    "p50": quantile(values, 0.5),
                    "p99": quantile(values, 0.99),
                    "engine_p50": samples.p50(key, "engine_ms"),
                    "prompt_tokens_p50": samples.p50(key, "prompt_tokens"),
                    "cached_tokens_p50": samples.p50(key, "cached_tokens"),
                    "requests": len(values),
                }
            row += [samples.p50(("editor", warmth, length), "engine_ms")]
            row += [int(samples.p50(("editor", warmth, length), "prompt_tokens"))]
            row += [int(samples.p50(("editor", warmth, length), "cached_tokens"))]
            rows.append(row)
    columns = (
        "request",
        "editor p50",
        "p99",
        "Triton p50",
        "p99",
        "engine p50",
        "tokens",
        "cached",
    )
    figures["unanswered"] = samples.unanswered
    title = f"{sessions} editing session{'s' if sessions > 1 else ''}"
    if samples.unanswered:
        title += f" ({samples.unanswered} requests without an answer, left out)"
    report.table(title, columns, rows)
    report.figures[f"sessions_{sessions}"] = figures


def _report_tax(report: Report, samples: Samples) -> None:
    """The tax: what the client waits beyond engine and post-processing, over the direct way's."""
    around = {
        way: [
            value
            for length in ("first", "line")
            for value in samples.values((way, "warm", length), "around_engine_ms")
        ]
        for way in ("editor", "triton")
    }
    rows, tax = [], {}
    for name, share, limit_ms in (("p50", 0.5, 3.0), ("p99", 0.99, 8.0)):
        through, direct = (quantile(around[way], share) for way in ("editor", "triton"))
        tax[name] = through - direct
        rows.append((name, through, direct, tax[name], limit_ms))
        measured = f"{tax[name]:.2f} ms"
        report.goal(f"tax at {name}", f"<= {limit_ms:.0f} ms", measured, met=tax[name] <= limit_ms)
    columns = ("around the engine", "editor", "Triton", "tax", "limit")
    report.table("Our tax, one session, warm (without engine and post-processing)", columns, rows)
    report.figures["tax_ms"] = tax


def run(arguments: argparse.Namespace) -> Report:
    """Starts a stack of its own, measures, stops it."""
    with running_stack(cache_mib=512, worker_limits=WIDE_LIMITS) as stack:
        return asyncio.run(measure(stack, arguments))
