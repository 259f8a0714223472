"""How many prompt tokens openvino-genai computes for equal prompts under two salts, exactly.

Run with the Triton environment's Python. The library says nothing of reuse, but an idle engine that
takes `STEP_TOKENS` tokens a step needs ceil(computed / STEP_TOKENS) steps to the first token. Salt
and prompt together have one token more than whole steps hold, so that one reused token would save
a step: full count means that not one was reused.

Each pair of salts is sent one prompt, first under the first salt, then under the second, then under
the first again (the control). Reads a JSON list of [salt, salt] in hexadecimal from standard input,
prints a JSON list of {"steps_cold", "steps_other", "steps_same", "steps_all"}.
"""

import json
import random
import sys
from pathlib import Path

import numpy as np
import openvino
import openvino_genai

from replica.manifest import EngineManifest, read_manifest
from replica.salt import ordinary_token_ids, salt_token_ids

STEP_TOKENS = 4
PROMPT_STEPS = 50


class Library:
    """The pipeline alone, on one request at a time."""

    def __init__(self, manifest: EngineManifest) -> None:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.num_kv_blocks = 400
        scheduler.enable_prefix_caching = True
        scheduler.dynamic_split_fuse = True
        scheduler.max_num_batched_tokens = STEP_TOKENS
        weights = str(manifest.weights)
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(weights, scheduler, "CPU")
        self._requests = 0

    def steps_to_first_token(self, prompt: list[int]) -> int:
        """Steps of an idle engine until the prompt's first token; the sequence ends with it."""
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = 1
        config.do_sample = False
        config.ignore_eos = True
        self._requests += 1
        tensor = openvino.Tensor(np.array([prompt], dtype=np.int64))
        handle = self._pipeline.add_request(self._requests, tensor, config)
        steps = 0
        while not handle.can_read():
            self._pipeline.step()
            steps += 1
        handle.read()
        return steps


def main() -> None:
    manifest = read_manifest(Path(sys.argv[1]))
    ordinary_ids = ordinary_token_ids(manifest.vocabulary_size, manifest.control_ids)
    library, rng = Library(manifest), random.Random(1)
    found = []
    for pair in json.load(sys.stdin):
        length = PROMPT_STEPS * STEP_TOKENS + 1 - manifest.reserved_salt_tokens
        prompt = rng.choices(ordinary_ids, k=length)
        ours, theirs = (
            [*salt_token_ids(bytes.fromhex(salt), manifest.reserved_salt_tokens, ordinary_ids)]
            for salt in pair
        )
        found.append(
            {
                "steps_all": PROMPT_STEPS + 1,
                "steps_cold": library.steps_to_first_token(ours + prompt),
                "steps_other": library.steps_to_first_token(theirs + prompt),
                "steps_same": library.steps_to_first_token(ours + prompt),
            }
        )
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
