"""What every reader produces: an architecture, tensors under GGUF names, and declarations.

Tensors are lazy, so that a checkpoint larger than memory can be converted one tensor at a time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

Family = Literal["llama", "qwen2"]
FAMILIES: tuple[Family, ...] = ("llama", "qwen2")


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder; `head_dim` need not be `hidden_size / attention_heads`."""

    family: Family
    layers: int
    hidden_size: int
    feed_forward_size: int
    attention_heads: int
    key_value_heads: int
    head_dim: int
    vocabulary_size: int
    context_tokens: int
    norm_epsilon: float
    rope_theta: float


@dataclass(frozen=True)
class StoredTensor:
    """One tensor: `shape` counts elements, `load()` gives the data as `kind` stores it.

    F16 and F32 load as float arrays of `shape`, every other kind as uint8 rows of GGML blocks.
    """

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    load: Callable[[], npt.NDArray[Any]]


@dataclass(frozen=True)
class DeclaredTokens:
    """Token ids that the checkpoint itself names, beside its tokenizer."""

    end_ids: tuple[int, ...] = ()
    begin_id: int | None = None
    fim: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A readable checkpoint. `self_description` is every name that it gives itself, lower case."""

    architecture: Architecture
    tensors: tuple[StoredTensor, ...]
    precision: str
    self_description: str
    declared: DeclaredTokens
    tokenizer_document: dict[str, Any]


def as_float32(tensor: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The values of a float array in single precision."""
    return tensor.astype(np.float32, copy=False)
