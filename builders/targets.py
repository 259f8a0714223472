"""The engine targets that exist. A new accelerator is a new row here and a module that it names."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from builders.checkpoints.checkpoint import Checkpoint
from builders.gguf_writer import write_gguf
from builders.refusals import BuildRefusedError
from builders.vocabulary.vocabulary import Vocabulary

WriteWeights = Callable[[Path, Checkpoint, Vocabulary, str, int], None]


@dataclass(frozen=True)
class Target:
    """What differs between targets: the weights file, who writes it, and the cache geometry.

    `block_tokens` is the size of a KV block, `tiers` the places that blocks can live in.
    """

    name: str
    weights_file: str
    write_weights: WriteWeights
    block_tokens: int
    tiers: tuple[str, ...]


TARGETS = {
    "cpu": Target(
        name="cpu",
        weights_file="model.gguf",
        write_weights=write_gguf,
        block_tokens=32,
        tiers=("device",),
    ),
}


def target_named(name: str) -> Target:
    """The target; raises `BuildRefusedError` with the names that exist."""
    if name not in TARGETS:
        raise BuildRefusedError(
            f"There is no engine target {name!r}.",
            f"the targets {', '.join(sorted(TARGETS))}.",
            "pass one of them with --target.",
        )
    return TARGETS[name]
