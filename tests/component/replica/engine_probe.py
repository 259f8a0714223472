"""Looks for unsound cache reuse in the real engine; run with the Triton environment's Python.

Every case compares tokens with those of an engine that has nothing cached. Prints one JSON object
with the findings of each case; empty lists are what is wanted.
"""

import json
import random
import sys
from pathlib import Path

from replica.engine import SequenceSpec, StepOutput
from replica.manifest import EngineManifest, read_manifest
from replica.openvino_engine import OpenVinoEngine, OpenVinoOptions

SALT = b"a salt of the probe"
PREFILL_TOKENS_PER_STEP = 64
OUTPUT_TOKENS = 12


def engine(manifest: EngineManifest, cache_bytes: int = 1 << 28) -> OpenVinoEngine:
    options = OpenVinoOptions(
        cache_bytes, threads=2, precision="f32", prefill_tokens_per_step=PREFILL_TOKENS_PER_STEP
    )
    return OpenVinoEngine(manifest, options)


def prompt(rng: random.Random, length: int) -> tuple[int, ...]:
    return tuple(rng.randrange(100, 8_000) for _ in range(length))


def spec(number: int, tokens: tuple[int, ...], output: int = OUTPUT_TOKENS) -> SequenceSpec:
    return SequenceSpec(number, tokens, SALT, output)


def run(used: OpenVinoEngine, *specs: SequenceSpec) -> tuple[list[tuple[int, ...]], list[int]]:
    """Tokens and cached tokens of sequences that start together."""
    for each in specs:
        used.add(each)
    steps: dict[int, list[StepOutput]] = {each.sequence_id: [] for each in specs}
    while not all(outputs and outputs[-1].finished for outputs in steps.values()):
        for output in used.step():
            steps.get(output.sequence_id, []).append(output)
    tokens = [tuple(t for o in steps[each.sequence_id] for t in o.token_ids) for each in specs]
    return tokens, [steps[each.sequence_id][-1].cached_tokens for each in specs]


def cancelled_prefill(manifest: EngineManifest, rng: random.Random) -> list[str]:
    """A prompt cancelled after any of its parts, beside a decoding sequence or alone."""
    wrong = []
    fresh, used = engine(manifest), engine(manifest)
    for beside in (False, True):
        if beside:
            used.add(spec(7, prompt(rng, 40), 1_000))
            used.step()
        for parts in (1, 2, 3, 4):
            tokens = prompt(rng, 300)
            expected = run(fresh, spec(1, tokens))[0]
            used.add(spec(2, tokens))
            for _ in range(parts):
                used.step()
            used.release(2)
            (answer,), (cached,) = run(used, spec(3, tokens))
            if [answer] != expected:
                wrong.append(f"other tokens after {parts} parts")
            if cached != parts * PREFILL_TOKENS_PER_STEP - manifest.reserved_salt_tokens:
                wrong.append(f"{cached} cached tokens after {parts} parts")
    return wrong


def shared_open_block(manifest: EngineManifest, rng: random.Random) -> list[str]:
    """Two prompts that go on differently from one partly filled block, sent together."""
    wrong = []
    fresh, used = engine(manifest), engine(manifest)
    for _ in range(5):
        base = prompt(rng, 90)
        one, two = base + prompt(rng, 3), base + prompt(rng, 3)
        expected = [run(fresh, spec(1, each))[0][0] for each in (one, two)]
        run(used, spec(1, base, 1))
        answers, cached = run(used, spec(2, one), spec(3, two))
        if answers != expected:
            wrong.append("other tokens")
        if min(cached) < 88:
            wrong.append(f"the open block was not reused: {cached}")
    return wrong


def held_blocks(manifest: EngineManifest, rng: random.Random) -> list[str]:
    """Many sequences in a small pool: the mirror's count against the library's, step by step."""
    used = engine(manifest, cache_bytes=70 * manifest.block_bytes(2))
    checked, live = 0, set[int]()
    wrong, past = list[str](), [prompt(rng, 100)]
    for number in range(100, 260):
        before = rng.choice(past[-4:])
        tokens = (before[: rng.randint(1, len(before))] + prompt(rng, rng.randint(0, 90)))[:400]
        request = spec(number, tokens, rng.choice([1, 5, 40]))
        past.append(tokens)
        if used.has_room_for(request):
            used.add(request)
            live.add(number)
        for _ in range(rng.randint(1, 6)):
            outputs = used.step()
            live -= {output.sequence_id for output in outputs if output.finished}
            # The library reports the middle of a step, before what ended in it was freed; the
            # parts of a prompt are requests that end in their step.
            if live and all(o.token_ids and not o.finished for o in outputs):
                checked += 1
                wrong += _compare(used, used._pipeline.get_metrics().cache_usage)
        if live and rng.random() < 0.3:
            gone = rng.choice(sorted(live))
            used.release(gone)
            live.discard(gone)
            live -= {output.sequence_id for output in used.step() if output.finished}
    if checked < 100:
        wrong.append(f"only {checked} comparisons")
    if used.cache_report().evictions_total == 0:
        wrong.append("the pool never overflowed")
    return wrong


def _compare(used: OpenVinoEngine, usage: float) -> list[str]:
    counted = used._mirror.blocks_held()
    reported = round(usage / 100 * used._blocks_total)
    return [] if counted == reported else [f"mirror {counted}, library {reported}"]


def main() -> None:
    manifest = read_manifest(Path(sys.argv[1]))
    cases = (cancelled_prefill, shared_open_block, held_blocks)
    report = {case.__name__: case(manifest, random.Random(7)) for case in cases}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
