"""Run by the Triton environment's Python: loads a GGUF file and generates greedily.

Standard input: JSON {"weights": path, "prompts": [[ids]], "new_tokens": n}. Last line of standard
output: JSON {"tokens": [[ids]], "logprobs": [[natural logarithms]]}.
"""

import json
import sys

import numpy as np
import openvino as ov
import openvino_genai as genai


def generate(pipeline, prompt: list[int], new_tokens: int) -> tuple[list[int], list[float]]:
    config = genai.GenerationConfig(max_new_tokens=new_tokens, ignore_eos=True, logprobs=1)
    ids = ov.Tensor(np.array([prompt], dtype=np.int64))
    handle = pipeline.add_request(0, ids, config)
    tokens, logprobs = [], []
    while pipeline.has_non_finished_requests():
        pipeline.step()
        while handle.can_read():
            for output in handle.read().values():
                tokens += output.generated_ids
                logprobs += output.generated_log_probs
    return tokens, logprobs


def main() -> None:
    task = json.load(sys.stdin)
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 1
    # Single precision everywhere: a processor with bfloat16 units would use them, and the
    # comparison is about the weights' layout, not about rounding.
    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    exact["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
    pipeline = genai.ContinuousBatchingPipeline(task["weights"], scheduler, "CPU", exact)
    results = [generate(pipeline, prompt, task["new_tokens"]) for prompt in task["prompts"]]
    tokens, logprobs = zip(*results, strict=True)
    print(json.dumps({"tokens": tokens, "logprobs": logprobs}))


if __name__ == "__main__":
    main()
