"""The engine's fake, shipped beside it: deterministic tokens, a simulated cache, an exact pace.

The next token depends on the salt and on every token before it, so a prompt that continues with
what was generated goes on as the first sequence would have. With a pace, `step` waits as long as
the modelled computation takes, on whatever `wait` it is given: real time or a test's clock.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replica.engine import CacheReport, SequenceSpec, StepOutput
from replica.manifest import EngineManifest
from replica.prefill_plan import prefill_end


@dataclass(frozen=True, slots=True)
class FakePace:
    """How long a step takes.

    Attributes:
        step_us: fixed time of a step.
        prefill_tokens_per_s: computed prompt tokens add to it at this rate; 0 adds nothing.
        prefill_tokens_per_step: as in the real engine.
    """

    step_us: int = 0
    prefill_tokens_per_s: int = 0
    prefill_tokens_per_step: int = 256

    def step_duration_us(self, computed_tokens: int) -> int:
        """Duration of a step that computes `computed_tokens` prompt tokens."""
        if not self.prefill_tokens_per_s:
            return self.step_us
        return self.step_us + computed_tokens * 1_000_000 // self.prefill_tokens_per_s


@dataclass(slots=True)
class _Held:
    spec: SequenceSpec
    state: bytes
    computed_to: int | None = None
    cached_tokens: int = 0
    generated: int = 0


@dataclass(slots=True)
class FakeEngine:
    """`Engine` without a model.

    Args:
        manifest: gives the vocabulary, the context and the block size.
        blocks_total: blocks of the simulated cache; the least recently used go first.
        pace: how long steps take.
        wait: waits that many microseconds.
        before_step: called at the start of each step; a test raises or blocks in it.
    """

    manifest: EngineManifest
    blocks_total: int
    pace: FakePace
    wait: Callable[[int], None]
    before_step: Callable[[], None] = lambda: None
    _held: dict[int, _Held] = field(default_factory=dict)
    _blocks: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict)
    _evictions: int = 0

    def has_room_for(self, spec: SequenceSpec) -> bool:
        """Always: the simulated cache holds no blocks for running sequences."""
        return True

    def add(self, spec: SequenceSpec) -> None:
        """Take a sequence."""
        self._held[spec.sequence_id] = _Held(spec, _start_state(spec))

    def release(self, sequence_id: int) -> None:
        """Let go of a sequence."""
        del self._held[sequence_id]

    def step(self) -> Sequence[StepOutput]:
        """One token for each decoding sequence, and prefill up to the budget."""
        self.before_step()
        budget = self.pace.prefill_tokens_per_step
        outputs = []
        for held in list(self._held.values()):
            output = self._advance(held, budget)
            budget -= output.computed_tokens if output else 0
            outputs += [output] if output else []
        computed_tokens = sum(output.computed_tokens for output in outputs)
        self.wait(self.pace.step_duration_us(computed_tokens))
        return outputs

    def cache_report(self) -> CacheReport:
        """The simulated cache; a warm session is a salt with at least one block in it."""
        return CacheReport(
            blocks_total=self.blocks_total,
            blocks_used=len(self._blocks),
            evictions_total=self._evictions,
            warm_sessions=len(set(self._blocks.values())),
        )

    def close(self) -> None:
        """Forget everything."""
        self._held.clear()
        self._blocks.clear()

    def _advance(self, held: _Held, budget: int) -> StepOutput | None:
        total = len(held.spec.prompt_ids)
        if held.computed_to == total:
            return self._output(held, 0)
        if budget <= 0:
            return None
        if held.computed_to is None:
            held.cached_tokens = held.computed_to = self._cached_tokens(held.spec)
        start = held.computed_to
        held.computed_to = prefill_end(total, start, budget, self.manifest.block_tokens)
        self._remember(held.spec, held.computed_to)
        return self._output(held, held.computed_to - start)

    def _output(self, held: _Held, computed_tokens: int) -> StepOutput:
        tokens: tuple[int, ...] = ()
        if held.computed_to == len(held.spec.prompt_ids):
            tokens = (self._next_token(held),)
        finished = held.generated >= held.spec.output_tokens_max
        if finished:
            del self._held[held.spec.sequence_id]
        return StepOutput(
            sequence_id=held.spec.sequence_id,
            token_ids=tokens,
            computed_tokens=computed_tokens,
            cached_tokens=held.cached_tokens,
            finished=finished,
        )

    def _next_token(self, held: _Held) -> int:
        token = int.from_bytes(held.state[:8], "little") % self.manifest.vocabulary_size
        held.state = _next_state(held.state, token)
        held.generated += 1
        return token

    def _cached_tokens(self, spec: SequenceSpec) -> int:
        """Whole blocks in the cache; the last prompt token is computed in any case."""
        cached = 0
        for end, key in self._block_keys(spec, len(spec.prompt_ids)):
            if key not in self._blocks:
                break
            cached = end
        return min(cached, len(spec.prompt_ids) - 1)

    def _remember(self, spec: SequenceSpec, computed_to: int) -> None:
        for _, key in self._block_keys(spec, computed_to):
            self._blocks[key] = spec.cache_salt
            self._blocks.move_to_end(key)
        while len(self._blocks) > self.blocks_total:
            self._blocks.popitem(last=False)
            self._evictions += 1

    def _block_keys(self, spec: SequenceSpec, computed_to: int) -> list[tuple[int, bytes]]:
        size = self.manifest.block_tokens
        key, keys = spec.cache_salt, []
        for end in range(size, computed_to + 1, size):
            block = spec.prompt_ids[end - size : end]
            key = hashlib.blake2b(key + repr(block).encode(), digest_size=16).digest()
            keys.append((end, key))
        return keys


def _start_state(spec: SequenceSpec) -> bytes:
    state = hashlib.blake2b(spec.cache_salt, digest_size=16).digest()
    for token in spec.prompt_ids:
        state = _next_state(state, token)
    return state


def _next_state(state: bytes, token: int) -> bytes:
    return hashlib.blake2b(state + token.to_bytes(4, "little"), digest_size=16).digest()
