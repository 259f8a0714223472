"""Holds the cache mirror against openvino-genai itself; run with the Triton environment's Python.

With 4 tokens to a step, the step in which a sequence's first token comes tells how many prompt
tokens were computed, and so how many were reused. Beside it, the library's cache usage after each
step tells how many blocks sequences hold. The random history covers what an editor does and what
the pool does: growing, edited and shrunk prompts, other salts, generated tokens that come back in
the next prompt, cancels in prefill and in decode, sequences that overlap, a pool that overflows.

Prints one JSON object: {"checked": n, "reused": n, "evictions": n, "mismatches": [...]}.
"""

import argparse
import json
import random
from dataclasses import dataclass, field

import numpy as np
import openvino
import openvino_genai
from openvino_genai.py_openvino_genai import GenerationHandle

from replica.cache_mirror import CacheMirror

STEP_TOKENS = 4
BLOCK_TOKENS = 32
SALT_TOKENS = 8
VOCABULARY = range(100, 8000)


@dataclass
class Run:
    """One sequence in the library and in the mirror."""

    request_id: int
    prompt: list[int]
    output_tokens_max: int
    handle: GenerationHandle
    processed: int
    predicted_first_step: int | None = None
    first_step: int | None = None
    output: list[int] = field(default_factory=list)
    cancelled: bool = False


class Oracle:
    """Drives pipeline and mirror together, one step at a time."""

    def __init__(self, model: str, blocks: int) -> None:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.num_kv_blocks = blocks
        scheduler.enable_prefix_caching = True
        scheduler.dynamic_split_fuse = True
        scheduler.max_num_batched_tokens = STEP_TOKENS
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU")
        self.mirror = CacheMirror(blocks, BLOCK_TOKENS)
        self.blocks = blocks
        self.live: list[Run] = []
        self.requests = 0
        self.steps = 0
        self.checked = 0
        self.reused = 0
        self.mismatches: list[dict[str, object]] = []

    def add(self, prompt: list[int], output_tokens_max: int, kind: str) -> Run:
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = output_tokens_max
        config.do_sample = False
        config.ignore_eos = True
        self.requests += 1
        tensor = openvino.Tensor(np.array([prompt], dtype=np.int64))
        handle = self.pipeline.add_request(self.requests, tensor, config)
        reused = self.mirror.add(self.requests, prompt, hash(tuple(prompt[:SALT_TOKENS])))
        self.reused += reused
        run = Run(self.requests, prompt, output_tokens_max, handle, reused)
        run.kind = kind  # type: ignore[attr-defined]  # only for the message of a mismatch
        self.live.append(run)
        return run

    def cancel(self, run: Run) -> None:
        run.handle.cancel()
        run.cancelled = True

    def step(self) -> None:
        self.steps += 1
        self._predict()
        self.pipeline.step()
        for run in self.live:
            while run.handle.can_read():
                for output in run.handle.read().values():
                    run.output.extend(output.generated_ids)
                    for token in output.generated_ids:
                        self.mirror.append(run.request_id, token)
            if run.output and run.first_step is None:
                run.first_step = self.steps
                self._compare_first_step(run)
        if any(not run.cancelled for run in self.live):
            self._compare_usage()
        for run in [r for r in self.live if not r.cancelled and self._ended(r)]:
            self._end(run)
        for run in [r for r in self.live if r.cancelled]:
            self._end(run)

    def drain(self) -> None:
        while self.live:
            self.step()

    def _predict(self) -> None:
        """What the library's scheduler does in this step: decoding first, then prompts."""
        budget = STEP_TOKENS
        running = [run for run in self.live if not run.cancelled]
        for run in [r for r in running if r.processed >= len(r.prompt)]:
            self.mirror.decode(run.request_id)
            run.processed += 1
            budget -= 1
        for run in [r for r in running if r.processed < len(r.prompt)]:
            tokens = min(budget, len(run.prompt) - run.processed)
            if tokens:
                self.mirror.prefill(run.request_id, tokens)
                run.processed += tokens
                budget -= tokens
            if tokens and run.processed == len(run.prompt):
                run.predicted_first_step = self.steps

    def _ended(self, run: Run) -> bool:
        return len(run.output) >= run.output_tokens_max

    def _end(self, run: Run) -> None:
        self.mirror.release(run.request_id)
        self.live.remove(run)

    def _compare_first_step(self, run: Run) -> None:
        self.checked += 1
        if run.first_step != run.predicted_first_step:
            self._mismatch("first step", run.predicted_first_step, run.first_step, run)

    def _compare_usage(self) -> None:
        usage = self.pipeline.get_metrics().cache_usage
        self.checked += 1
        held = round(usage / 100 * self.blocks)
        if held != self.mirror.blocks_held():
            self._mismatch("blocks held", self.mirror.blocks_held(), held, self.live[0])

    def _mismatch(self, what: str, mirror: object, library: object, run: Run) -> None:
        self.mismatches.append(
            {
                "what": what,
                "mirror": mirror,
                "library": library,
                "kind": run.kind,  # type: ignore[attr-defined]  # as above
                "request": run.request_id,
                "prompt_tokens": len(run.prompt),
            }
        )


def next_prompt(rng: random.Random, past: list[Run], tokens_max: int) -> tuple[str, list[int]]:
    """A prompt as an editor would send it after `past`, and what was done to get it."""
    length = rng.randint(SALT_TOKENS + 1, tokens_max)
    if rng.random() < 0.5:  # the edges of blocks are where mistakes live
        length = max(BLOCK_TOKENS, length - length % BLOCK_TOKENS) + rng.choice([0, 1])
    fresh = [rng.choice(VOCABULARY) for _ in range(length)]
    if not past or rng.random() < 0.15:
        return "new", fresh
    before = rng.choice(past[-6:])
    prompt, at = list(before.prompt), rng.randint(SALT_TOKENS, len(before.prompt) - 1)
    more = [rng.choice(VOCABULARY) for _ in range(rng.randint(1, 40))]
    kinds = ["again", "extend", "edit", "shrink", "salt", "continue", "continue some", "join"]
    kind = rng.choice(kinds)
    changed = {
        "again": prompt,
        "extend": prompt + more,
        "edit": [*prompt[:at], rng.choice(VOCABULARY), *prompt[at + 1 :]],
        "shrink": prompt[: at + 1],
        "salt": fresh[:SALT_TOKENS] + prompt[SALT_TOKENS:],
        "continue": prompt + before.output + more,
        # What a sequence that still runs has in its last block, so that two hold it.
        "join": prompt + before.output[:-1] + more[: rng.choice([0, 3])],
        "continue some": prompt + before.output[: rng.randint(0, len(before.output))],
    }[kind]
    return kind, changed[:tokens_max]


def run_history(oracle: Oracle, rng: random.Random, requests: int, tokens_max: int) -> None:
    """`requests` random requests, each ended, cancelled or left to overlap the next."""
    past: list[Run] = []
    while oracle.requests < requests:
        kind, prompt = next_prompt(rng, past, tokens_max)
        run = oracle.add(prompt, rng.choice([1, 1, 2, rng.randint(3, 70)]), kind)
        past.append(run)
        fate = rng.random()
        if fate < 0.5:
            oracle.drain()
        elif fate < 0.8:
            for _ in range(rng.randint(1, 40)):
                if oracle.live:
                    oracle.step()
            if run in oracle.live:
                oracle.cancel(run)
                oracle.step()
        else:
            for _ in range(rng.randint(1, 20)):
                if oracle.live:
                    oracle.step()
        if len(oracle.live) >= 3:
            oracle.drain()
    oracle.drain()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--blocks", type=int, default=400)
    parser.add_argument("--prompt-tokens-max", type=int, default=200)
    arguments = parser.parse_args()
    oracle = Oracle(arguments.model, arguments.blocks)
    rng = random.Random(arguments.seed)
    run_history(oracle, rng, arguments.requests, arguments.prompt_tokens_max)
    report = {
        "checked": oracle.checked,
        "reused": oracle.reused,
        "evictions": oracle.mirror.report().evictions_total,
        "mismatches": oracle.mismatches,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
