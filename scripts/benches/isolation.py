"""Do equal prompts of two tenants, users or sessions meet in the cache, or in the time they take?

Each trial has a first request and, right after it, the one that is measured. The first one's prompt
is new. The second has the same prompt under another salt (the question), or a prompt that nobody
has sent (the baseline), or the same prompt or its first block under the same salt (controls that
must be seen). All stand in one shuffled order, so that whatever the machine does falls on all kinds
alike, and go straight to a replica: the sharpest clock that a client could have.
"""

import argparse
import asyncio
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.generation.triton import TritonClient
from orchestrator.session import SECRET_BYTES_MIN, SessionHasher
from replica.manifest import EngineManifest, read_manifest
from scripts.benches.partitions import OTHERS, salts_of
from scripts.benches.paths import Sample, over_grpc
from scripts.benches.report import Report, quantile
from scripts.benches.two_sample import Verdict, compare, smallest_shift_seen
from scripts.stack.api import running_stack

DESCRIPTION = "equal prompts under two tenants, users, sessions: tokens reused, and timing compared"
ALPHA = 0.001
BASELINE, SAME, FIRST_BLOCK = "baseline", "same session", "first block alone"
QUESTIONS = {f"two {what}": what for what in OTHERS}
SENT_BY = {
    "two tenants": "another tenant",
    "two users": "another user",
    "two sessions": "another session",
    BASELINE: "nobody",
    SAME: "the same session",
    FIRST_BLOCK: "the same session, first block",
}
KINDS = tuple(SENT_BY)
TIMES = {"client": "client_ms", "engine": "engine_ms"}
"""What a client can measure, and what the engine reports and our answers repeat."""
WARM_UP_TRIALS = 5
"""Of each kind."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--samples", type=int, default=250, help="of each kind (default 250)")
    parser.add_argument("--prompt-tokens", type=int, default=300, help="default 300")


@dataclass(frozen=True)
class Trial:
    """Two requests, (salt, prompt) each; the second is measured."""

    kind: str
    first: tuple[bytes, "array[int]"]
    second: tuple[bytes, "array[int]"]


@dataclass
class Samples:
    """Measured requests of one kind."""

    samples: list[Sample] = field(default_factory=list)

    def times(self, what: str) -> list[float]:
        """One of the times, in ms."""
        return [getattr(sample, what) for sample in self.samples]

    def reused(self) -> list[int]:
        """Prompt tokens that the engine took from the cache."""
        return [sample.cached_tokens for sample in self.samples]


class Trials:
    """Draws trials: each has a secret of its own, so salts and prompts are new to every cache."""

    def __init__(self, rng: random.Random, manifest: EngineManifest, length: int) -> None:
        self._rng, self._length = rng, length
        self._ids = [i for i in range(manifest.vocabulary_size) if i not in manifest.control_ids]
        self.first_block = manifest.block_tokens - manifest.reserved_salt_tokens

    def shuffled(self, each: int) -> Iterator[Trial]:
        """`each` trials of each kind."""
        order = [kind for kind in KINDS for _ in range(each)]
        self._rng.shuffle(order)
        return (self._trial(kind) for kind in order)

    def _trial(self, kind: str) -> Trial:
        hasher = SessionHasher(self._rng.randbytes(SECRET_BYTES_MIN))
        ours, theirs = salts_of(hasher, QUESTIONS.get(kind, "sessions"))
        prompt, other = self._prompt(), self._prompt()
        second = {
            BASELINE: (theirs, other),
            SAME: (ours, prompt),
            FIRST_BLOCK: (ours, prompt[: self.first_block] + other[self.first_block :]),
        }.get(kind, (theirs, prompt))
        return Trial(kind, (ours, prompt), second)

    def _prompt(self) -> "array[int]":
        return array("i", self._rng.choices(self._ids, k=self._length))


async def measure(address: str, trials: Trials, each: int) -> dict[str, Samples]:
    """All trials at one replica, one after another; the first few are not counted."""
    found = {kind: Samples() for kind in KINDS}
    client = TritonClient(address)
    try:
        for trial in trials.shuffled(WARM_UP_TRIALS):
            await _run(client, trial)
        for trial in trials.shuffled(each):
            found[trial.kind].samples.append(await _run(client, trial))
    finally:
        await client.close()
    return found


async def _run(client: TritonClient, trial: Trial) -> Sample:
    await over_grpc(client, trial.first[1], trial.first[0], tokens=1)
    return await over_grpc(client, trial.second[1], trial.second[0], tokens=1)


def run(arguments: argparse.Namespace) -> Report:
    """Starts a replica of its own, measures, stops it."""
    with running_stack(replicas=1, workers=1, cache_mib=256) as stack:
        manifest = read_manifest(Path(stack.config.engine_dir))
        trials = Trials(random.Random(arguments.seed), manifest, arguments.prompt_tokens)
        found = asyncio.run(measure(stack.replicas[0].address, trials, arguments.samples))
    report = Report("isolation", arguments.seed)
    _report_samples(report, found)
    _report_verdicts(report, found)
    _goals_of_reuse(report, found, trials.first_block)
    report.notes.append(
        f"{arguments.samples} samples each of {arguments.prompt_tokens} prompt tokens, shuffled, "
        f"straight to one replica; two-sample Kolmogorov-Smirnov at alpha {ALPHA}."
    )
    return report


def _report_samples(report: Report, found: dict[str, Samples]) -> None:
    columns = (
        "the prompt was sent before by",
        "tokens reused",
        "client p50 ms",
        "p95",
        "engine p50",
    )
    rows = []
    for kind, each in found.items():
        reused, client = each.reused(), each.times("client_ms")
        rows.append(
            (
                SENT_BY[kind],
                f"{min(reused)} to {max(reused)}",
                quantile(client, 0.5),
                quantile(client, 0.95),
                quantile(each.times("engine_ms"), 0.5),
            )
        )
        report.figures[kind.replace(" ", "_")] = {
            "samples": len(client),
            "reused_tokens_max": max(reused),
            "reused_tokens_min": min(reused),
            "client_p50_ms": quantile(client, 0.5),
            "client_p95_ms": quantile(client, 0.95),
        }
    report.table("The same prompt again", columns, rows)


def _report_verdicts(report: Report, found: dict[str, Samples]) -> None:
    """Each kind against the prompt that nobody has sent."""
    rows: list[tuple[object, ...]] = []
    for name, what in TIMES.items():
        baseline = found[BASELINE].times(what)
        for kind, each in found.items():
            if kind != BASELINE:
                times = each.times(what)
                verdict = compare(times, baseline, ALPHA)
                seen_ms = smallest_shift_seen(times, baseline, ALPHA)
                rows.append((f"{SENT_BY[kind]}, {name}", *_cells(verdict, seen_ms)))
                report.figures[kind.replace(" ", "_")][f"{name}_ks"] = vars(verdict)
                _goal_of_time(report, kind, name, verdict)
    columns = ("against a prompt nobody sent", "distance", "critical", "p", "would see, ms")
    report.table("Time to the answer", columns, rows)


def _cells(verdict: Verdict, seen_ms: float) -> tuple[str, str, str, str]:
    seen = "seen" if verdict.differs else f"{seen_ms:.2f}"
    return f"{verdict.distance:.3f}", f"{verdict.critical:.3f}", f"{verdict.p_value:.2g}", seen


def _goal_of_time(report: Report, kind: str, name: str, verdict: Verdict) -> None:
    measured = f"{verdict.distance:.3f} of {verdict.critical:.3f}"
    if kind in QUESTIONS:
        claim = f"{kind}: no difference in time ({name})"
        report.goal(claim, "distance below critical", measured, met=not verdict.differs)
    else:
        claim = f"control, {kind}: seen ({name})"
        report.goal(claim, "distance above critical", measured, met=verdict.differs)


def _goals_of_reuse(report: Report, found: dict[str, Samples], first_block: int) -> None:
    for kind in (*QUESTIONS, BASELINE):
        most = max(found[kind].reused())
        report.goal(f"{kind}: tokens reused", "0", str(most), met=most == 0)
    least = min(found[SAME].reused())
    report.goal(f"control, {SAME}: tokens reused", "at least 1", str(least), met=least > 0)
    shared = set(found[FIRST_BLOCK].reused())
    claim = f"control, {FIRST_BLOCK}: tokens reused"
    report.goal(claim, str(first_block), str(sorted(shared)), met=shared == {first_block})
