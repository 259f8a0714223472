"""Token rows for one step: a pure function of (files, recipe, seed, step).

A step's examples depend on nothing that came before, so a resumed run sees the very rows that an
uninterrupted one would have seen, and no sampler state has to be saved.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from builders.training.examples import FileSampler, example
from builders.training.recipe import ExampleMix
from builders.training.tokens import PieceTokenizer


@dataclass(frozen=True)
class Rows:
    """Inputs and, one position later, targets; both `rows` lists of equal length."""

    inputs: list[list[int]]
    targets: list[list[int]]


@dataclass(frozen=True)
class BatchSource:
    """Everything that a step's tokens are made from."""

    sampler: FileSampler
    tokenizer: PieceTokenizer
    mix: ExampleMix
    seed: int

    def tokens(self, step: int, count: int) -> list[int]:
        """`count` tokens of whole examples end to end; only the last one is cut."""
        random = Random(f"{self.seed}:{step}")
        ids: list[int] = []
        while len(ids) < count:
            ids += self.tokenizer.encode(example(self.sampler, self.mix, random))
        return ids[:count]

    def micro_batches(
        self, step: int, tokens: int, row_tokens: int, micro_batch_tokens: int
    ) -> Iterator[Rows]:
        """The step's rows of `row_tokens`, in groups of about `micro_batch_tokens`."""
        stream = self.tokens(step, tokens + 1)
        inputs, targets = _cut(stream[:-1], row_tokens), _cut(stream[1:], row_tokens)
        group = max(1, micro_batch_tokens // row_tokens)
        for start in range(0, len(inputs), group):
            yield Rows(inputs[start : start + group], targets[start : start + group])


def _cut(stream: Sequence[int], row_tokens: int) -> list[list[int]]:
    whole = len(stream) // row_tokens * row_tokens
    return [list(stream[start : start + row_tokens]) for start in range(0, whole, row_tokens)]
