"""What token healing does to infilling: each case with healing off, of blanks, and of tokens.

A case is a line of real code cut where a cursor stands while somebody types: right after a blank,
or within a word. Its rest is asked for, straight from a replica, with the orchestrator's own prompt
stage, generation and rules; all ways get the same salt, because the salt is part of what the model
sees. Similarity is difflib's ratio of what is shown to what stood there.
"""

import argparse
import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import blake2b
from pathlib import Path

from msgspec.structs import replace

from orchestrator.generation.healing import generate_healed
from orchestrator.generation.inference import InferenceError, InferenceRequest, StopRule
from orchestrator.generation.triton import TritonClient
from orchestrator.postprocess import Chain, Context, Kept
from orchestrator.prompt.engine import PromptEngine, load_engine
from orchestrator.prompt.parts import FimPrompt, PromptParts
from orchestrator.prompt.recipe import HealingMode
from orchestrator.prompt.recipe_documents import DEFAULT_RECIPE, read_recipe
from orchestrator.prompt.segments import SegmentTable
from orchestrator.request import Document, Mode
from scripts.benches.paths import DEADLINE_MS
from scripts.benches.report import Report
from scripts.benches.unseen_code import UnseenFile, unseen_files, unseen_packages
from scripts.stack.api import running_stack

DESCRIPTION = "infilling with token healing off, of blanks, and of tokens"
KINDS = ("after a blank", "within a word")
LINE_TOKENS = 48
REST_CHARS_MIN = 4
WORD = re.compile(r"[A-Za-z_]\w{3,}")
BLANK = re.compile(r"(?<=\S) (?=\S)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--cases", type=int, default=600, help="cut lines, half of each kind")
    parser.add_argument("--at-once", type=int, default=4, help="sequences in flight")


@dataclass(frozen=True)
class Case:
    """One cut line: where it was cut, what the prompt stage gets, and what stood there."""

    kind: str
    parts: PromptParts
    expected: str
    salt: bytes


@dataclass(frozen=True)
class Shown:
    """What one way would show for one case, and the sequences that it took."""

    exact: bool
    similarity: float
    sequences: int


Outcome = tuple[str, dict[HealingMode, Shown]]
"""A case's kind, and what each way shows for it."""


def cases(files: Sequence[UnseenFile], seed: int, count: int) -> Iterator[Case]:
    """`count` cases, both kinds in turn, each from a file drawn anew."""
    rng = random.Random(seed)
    made = 0
    while made < count:
        case = _case(rng.choice(files), KINDS[made % len(KINDS)], rng, made)
        if case is not None:
            made += 1
            yield case


def _case(file: UnseenFile, kind: str, rng: random.Random, number: int) -> Case | None:
    """A case from a random line of code; None where the line has no such place."""
    lines = file.text.splitlines(keepends=True)
    index = rng.randrange(len(lines))
    line = lines[index].rstrip()
    if line.lstrip().startswith(("#", '"', "'")):
        return None
    cuts = [cut for cut in _cuts(line, kind) if len(line) - cut >= REST_CHARS_MIN]
    if not cuts:
        return None
    cut = rng.choice(cuts)
    before, after = "".join(lines[:index]), "".join(lines[index + 1 :])
    parts = PromptParts(before + line[:cut], "\n" + after, file.path, 0)
    salt = blake2b(number.to_bytes(4, "big"), digest_size=32).digest()
    return Case(kind, parts, line[cut:], salt)


def _cuts(line: str, kind: str) -> list[int]:
    if kind == KINDS[0]:
        return [found.end() for found in BLANK.finditer(line)]
    return [cut for found in WORD.finditer(line) for cut in range(found.start() + 1, found.end())]


class Way:
    """One kind of healing, over one replica."""

    def __init__(self, mode: HealingMode, engine_dir: Path, client: TritonClient) -> None:
        recipe = replace(read_recipe(DEFAULT_RECIPE), token_healing=mode)
        self.mode = mode
        self._engine: PromptEngine = load_engine(engine_dir, recipe, SegmentTable())
        self._client = client

    async def show(self, case: Case) -> Shown:
        """Asks for the rest of the case's line; raises `InferenceError`."""
        sequences = 0

        def sequence(prompt: FimPrompt) -> InferenceRequest:
            nonlocal sequences
            sequences += 1
            return InferenceRequest(
                pool="fast",
                session_key=case.salt.hex(),
                token_ids=prompt.token_ids,
                cache_salt=case.salt,
                max_tokens=LINE_TOKENS,
                stop_rule=StopRule.NEWLINE,
                streaming=False,
                remaining_ms=DEADLINE_MS,
            )

        generated = await generate_healed(
            self._client,
            self._engine,
            self._engine.compose(case.parts, case.salt),
            unhealed=lambda: self._engine.compose(case.parts, case.salt, heal=False),
            sequence=sequence,
            block=lambda: None,
        )
        text = _shown(generated.text, case)
        similarity = SequenceMatcher(None, text, case.expected, autojunk=False).ratio()
        return Shown(text == case.expected, similarity, sequences)


def _shown(text: str, case: Case) -> str:
    document = Document(case.parts.prefix, case.parts.suffix)
    verdict = Chain().run(text, Context(document, Mode.LINE, "python"))
    return verdict.text if isinstance(verdict, Kept) else ""


async def measure(
    address: str, engine_dir: Path, chosen: Sequence[Case], at_once: int
) -> list[Outcome]:
    """What each way shows, for each case that all of them got an answer to."""
    client, places = TritonClient(address), asyncio.Semaphore(at_once)
    ways = [Way(mode, engine_dir, client) for mode in HealingMode]

    async def all_ways(case: Case) -> Outcome | None:
        async with places:
            try:
                return case.kind, {way.mode: await way.show(case) for way in ways}
            except InferenceError:
                return None

    try:
        outcomes = await asyncio.gather(*(all_ways(case) for case in chosen))
    finally:
        await client.close()
    return [each for each in outcomes if each is not None]


def run(arguments: argparse.Namespace) -> Report:
    """Starts a replica of its own, measures, stops it."""
    files = unseen_files()
    chosen = list(cases(files, arguments.seed, arguments.cases))
    with running_stack(replicas=1, workers=1, cache_mib=512) as stack:
        address, engine_dir = stack.replicas[0].address, Path(stack.config.engine_dir)
        outcomes = asyncio.run(measure(address, engine_dir, chosen, arguments.at_once))
    report = _report(arguments.seed, outcomes)
    report.notes.append(f"{len(files)} files; {len(chosen) - len(outcomes)} cases unanswered.")
    return report


def _report(seed: int, outcomes: Sequence[Outcome]) -> Report:
    report = Report("token-healing", seed)
    columns = ("healing", "cases", "exact %", "similarity", "better", "worse", "sequences a case")
    for kind in KINDS:
        shown = [ways for of_kind, ways in outcomes if of_kind == kind]
        rows = [_row(mode, shown) for mode in HealingMode]
        report.table(f"Cut {kind}", columns, rows)
        report.figures[kind.replace(" ", "_")] = {
            row[0]: dict(zip(columns[1:], row[1:], strict=True)) for row in rows
        }
    names = ", ".join(each.metadata["Name"] for each in unseen_packages())
    report.notes.append(f"Better and worse: cases against healing off. Packages: {names}.")
    return report


def _row(
    mode: HealingMode, shown: Sequence[dict[HealingMode, Shown]]
) -> tuple[str, int, float, float, int, int, float]:
    pairs = [(ways[mode], ways[HealingMode.OFF]) for ways in shown]
    count = max(len(pairs), 1)
    return (
        mode.value,
        len(pairs),
        100 * sum(ours.exact for ours, _ in pairs) / count,
        sum(ours.similarity for ours, _ in pairs) / count,
        sum(ours.similarity > off.similarity for ours, off in pairs),
        sum(ours.similarity < off.similarity for ours, off in pairs),
        sum(ours.sequences for ours, _ in pairs) / count,
    )
