"""The CPU engine: openvino-genai's continuous batching behind the `Engine` Protocol.

Rules that keep the library's prefix cache sound (each was seen broken without it, 2026.4.1):
- a request's prompt is computed whole in its first step (`prefill_plan`);
- in one step at most one request continues a partly filled block that another one holds, because
  the library lets two prompts write into the same block;
- the pool has room for every sequence taken, so the library never preempts or splits one.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import openvino
import openvino_genai
from openvino_genai.py_openvino_genai import GenerationHandle

from replica.cache_mirror import CacheMirror
from replica.engine import CacheReport, SequenceSpec, StepOutput
from replica.manifest import EngineManifest
from replica.prefill_plan import prefill_end
from replica.salt import ordinary_token_ids, salt_token_ids

# Beyond any batch that the loop can make up, so that the library never splits a prompt by itself.
_BATCHED_TOKENS_MAX = 1 << 20
_CACHE_ELEMENT_BYTES = 2
_WARM_UP_S = 2.0
_WARM_UP_PROMPT_TOKENS = 1_024
_WARM_UP_SHAPES = 64


class CachePoolTooSmallError(Exception):
    """The cache cannot hold even one sequence of full length."""


@dataclass(frozen=True, slots=True)
class OpenVinoOptions:
    """How the engine is built.

    Attributes:
        cache_bytes: upper limit of the block pool.
        threads: inference threads.
        precision: of the computation, `f32` or `bf16`.
        prefill_tokens_per_step: prompt tokens computed in a step, over all sequences; at least
            one block.
    """

    cache_bytes: int
    threads: int
    precision: str
    prefill_tokens_per_step: int


@dataclass(slots=True)
class _Held:
    spec: SequenceSpec
    tokens: tuple[int, ...]
    blocks_max: int
    handle: GenerationHandle | None = None
    request_id: int = -1
    cached_tokens: int | None = None
    generated: int = 0


@dataclass(slots=True)
class _Submitted:
    held: _Held
    request_id: int
    handle: GenerationHandle
    computed_tokens: int
    is_last_part: bool


@dataclass(slots=True)
class _Batch:
    decoding: list[_Held] = field(default_factory=list)
    submitted: list[_Submitted] = field(default_factory=list)


class OpenVinoEngine:
    """`Engine` over a GGUF file. Greedy; the salt is prepended as ordinary tokens."""

    def __init__(self, manifest: EngineManifest, options: OpenVinoOptions) -> None:
        self._manifest = manifest
        self._prefill_budget = options.prefill_tokens_per_step
        self._ordinary_ids = ordinary_token_ids(manifest.vocabulary_size, manifest.control_ids)
        self._blocks_total = pool_blocks(manifest, options.cache_bytes)
        self._pipeline = _pipeline(manifest, self._blocks_total, options)
        self._mirror = CacheMirror(self._blocks_total, manifest.block_tokens)
        self._held: dict[int, _Held] = {}
        self._released: list[int] = []
        self._blocks_reserved = 0
        self._requests = 0
        self._warm_up()

    def has_room_for(self, spec: SequenceSpec) -> bool:
        """Whether the pool can hold the sequence at full length beside all others at theirs."""
        return self._blocks_reserved + self._blocks_for(spec) <= self._blocks_total

    def add(self, spec: SequenceSpec) -> None:
        """Take a sequence; its first part is submitted in the next step."""
        salt = salt_token_ids(
            spec.cache_salt, self._manifest.reserved_salt_tokens, self._ordinary_ids
        )
        blocks_max = self._blocks_for(spec)
        self._blocks_reserved += blocks_max
        self._held[spec.sequence_id] = _Held(spec, salt + spec.prompt_ids, blocks_max)

    def release(self, sequence_id: int) -> None:
        """Let go of a sequence; the library frees its blocks in the next step, or now if idle."""
        held = self._forget(sequence_id)
        if held.handle is None:
            return
        held.handle.cancel()
        self._released.append(held.request_id)
        if not any(other.handle for other in self._held.values()):
            self._pipeline.step()
            self._free_released()

    def step(self) -> Sequence[StepOutput]:
        """Submit what fits, compute one batch, mirror it, read the tokens."""
        batch = _Batch(decoding=[held for held in self._held.values() if held.handle])
        self._submit(batch)
        self._pipeline.step()
        self._mirror_step(batch)
        outputs = [self._decoded(held) for held in batch.decoding]
        outputs += [self._prefilled(submitted) for submitted in batch.submitted]
        self._free_released()
        return outputs

    def cache_report(self) -> CacheReport:
        """The mirror's view of the pool."""
        return self._mirror.report()

    def close(self) -> None:
        """Let go of every sequence, then of the pipeline."""
        for sequence_id in list(self._held):
            self.release(sequence_id)
        del self._pipeline

    def _warm_up(self) -> None:
        """Compute a long prompt and short ones: kernels are compiled at each shape's first use.

        A shape is a number of tokens in a step. Those of an edited line come often, and each would
        add some 3 ms to its first request; a large model's are cut off by the time limit.
        """
        end_s = time.monotonic() + _WARM_UP_S
        longest = min(_WARM_UP_PROMPT_TOKENS, self._manifest.prompt_and_output_tokens_max - 1)
        for length in (longest, *range(1, _WARM_UP_SHAPES)):
            self.add(SequenceSpec(0, self._warm_up_prompt(min(length, longest)), b"", 1))
            while self._held:
                self.step()
            if time.monotonic() > end_s:
                return

    def _warm_up_prompt(self, length: int) -> tuple[int, ...]:
        """A prompt whose first block no other length's has."""
        ids = self._ordinary_ids
        return tuple(ids[(length + i) % len(ids)] for i in range(length))

    def _submit(self, batch: _Batch) -> None:
        budget = self._prefill_budget
        for held in self._held.values():
            if held.handle is not None:
                continue
            if budget <= 0:
                break
            match = self._mirror.peek(held.tokens)
            if batch.submitted and match.last_block_is_open and match.last_block_is_held:
                continue
            end = prefill_end(len(held.tokens), match.tokens, budget, self._manifest.block_tokens)
            if end <= match.tokens:
                continue
            budget -= end - match.tokens
            batch.submitted.append(self._submit_part(held, end))

    def _submit_part(self, held: _Held, end: int) -> _Submitted:
        is_last_part = end == len(held.tokens)
        output_tokens_max = held.spec.output_tokens_max if is_last_part else 1
        self._requests += 1
        handle = self._pipeline.add_request(
            self._requests,
            openvino.Tensor(np.array([held.tokens[:end]], dtype=np.int64)),
            _generation_config(output_tokens_max),
        )
        session = hash(held.spec.cache_salt) if held.spec.cache_salt else None
        cached = self._mirror.add(self._requests, held.tokens[:end], session)
        if held.cached_tokens is None:
            held.cached_tokens = max(0, cached - self._manifest.reserved_salt_tokens)
        return _Submitted(held, self._requests, handle, end - cached, is_last_part)

    def _mirror_step(self, batch: _Batch) -> None:
        for held in batch.decoding:
            self._mirror.decode(held.request_id)
        for submitted in batch.submitted:
            self._mirror.prefill(submitted.request_id, submitted.computed_tokens)

    def _decoded(self, held: _Held) -> StepOutput:
        assert held.handle is not None
        return self._output(held, self._read(held.handle, held.request_id), 0)

    def _prefilled(self, submitted: _Submitted) -> StepOutput:
        tokens = self._read(submitted.handle, submitted.request_id)
        if not submitted.is_last_part:
            # The part was computed for its cache blocks; the token that came with it is not ours.
            self._mirror.release(submitted.request_id)
            return self._output(submitted.held, (), submitted.computed_tokens)
        submitted.held.handle = submitted.handle
        submitted.held.request_id = submitted.request_id
        return self._output(submitted.held, tokens, submitted.computed_tokens)

    def _read(self, handle: GenerationHandle, request_id: int) -> tuple[int, ...]:
        if handle.get_status() == openvino_genai.GenerationStatus.IGNORED:
            raise RuntimeError("the block pool ran out although room was reserved")
        tokens: list[int] = []
        while handle.can_read():
            for output in handle.read().values():
                tokens.extend(output.generated_ids)
        for token in tokens:
            self._mirror.append(request_id, token)
        return tuple(tokens)

    def _output(self, held: _Held, tokens: tuple[int, ...], computed_tokens: int) -> StepOutput:
        held.generated += len(tokens)
        finished = held.generated >= held.spec.output_tokens_max
        if finished:
            self._forget(held.spec.sequence_id)
            self._mirror.release(held.request_id)
        return StepOutput(
            sequence_id=held.spec.sequence_id,
            token_ids=tokens,
            computed_tokens=computed_tokens,
            cached_tokens=held.cached_tokens or 0,
            finished=finished,
        )

    def _forget(self, sequence_id: int) -> _Held:
        held = self._held.pop(sequence_id)
        self._blocks_reserved -= held.blocks_max
        return held

    def _free_released(self) -> None:
        for request_id in self._released:
            self._mirror.release(request_id)
        self._released.clear()

    def _blocks_for(self, spec: SequenceSpec) -> int:
        tokens = self._manifest.reserved_salt_tokens + len(spec.prompt_ids) + spec.output_tokens_max
        return blocks_for(tokens, self._manifest.block_tokens)


def blocks_for(tokens: int, block_tokens: int) -> int:
    """Blocks for a sequence of `tokens` tokens, and one for the copy of a shared last block."""
    return -(-tokens // block_tokens) + 1


def pool_blocks(manifest: EngineManifest, cache_bytes: int) -> int:
    """Blocks that fit into `cache_bytes`.

    Raises:
        CachePoolTooSmallError: they do not hold one sequence of full context length.
    """
    block_bytes = manifest.block_bytes(_CACHE_ELEMENT_BYTES)
    blocks = cache_bytes // block_bytes
    needed = blocks_for(manifest.context_tokens, manifest.block_tokens)
    if blocks < needed:
        raise CachePoolTooSmallError(
            f"the cache must hold {needed} blocks of {block_bytes} bytes for one sequence of "
            f"{manifest.context_tokens} tokens, {cache_bytes} bytes hold {blocks}; "
            f"set WARMLINE_CACHE_BYTES to {needed * block_bytes} or more"
        )
    return blocks


def _pipeline(
    manifest: EngineManifest, blocks_total: int, options: OpenVinoOptions
) -> openvino_genai.ContinuousBatchingPipeline:
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.num_kv_blocks = blocks_total
    scheduler.enable_prefix_caching = True
    scheduler.dynamic_split_fuse = True
    scheduler.max_num_batched_tokens = _BATCHED_TOKENS_MAX
    properties = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": options.threads,
        # Pinned, the threads of two replicas would share one core and leave the other idle.
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": options.precision,
        "KV_CACHE_PRECISION": "f16",
    }
    return openvino_genai.ContinuousBatchingPipeline(
        str(manifest.weights), scheduler, "CPU", properties
    )


def _generation_config(output_tokens_max: int) -> openvino_genai.GenerationConfig:
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = output_tokens_max
    config.do_sample = False
    # The loop decides where a sequence ends: the library's own end id would cut it short.
    config.ignore_eos = True
    return config
