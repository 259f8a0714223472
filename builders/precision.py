"""Which tensor kinds the CPU engine reads faithfully, and the conversion of the others.

openvino-genai builds its graph from F16, Q8_0, Q4_0, Q4_1, Q4_K and Q6_K matrices and float
vectors. What is kept and what is converted follows from what was measured (docs/engine-manifest.md).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, dequantize

from builders.checkpoints.checkpoint import StoredTensor
from builders.refusals import BuildRefusedError

KEPT = {GGMLQuantizationType.F16, GGMLQuantizationType.Q8_0}


def as_engine_tensor(tensor: StoredTensor) -> StoredTensor:
    """The tensor in a kind that the engine reads: vectors as F32, matrices kept or made F16."""
    vector = len(tensor.shape) == 1
    target = GGMLQuantizationType.F32 if vector else GGMLQuantizationType.F16
    if tensor.kind is target or (not vector and tensor.kind in KEPT):
        return tensor
    return replace(tensor, kind=target, load=_converter(tensor, vector=vector))


def _converter(tensor: StoredTensor, *, vector: bool) -> Callable[[], npt.NDArray[Any]]:
    def load() -> npt.NDArray[Any]:
        try:
            values = dequantize(tensor.load(), tensor.kind)
        except NotImplementedError as error:
            raise BuildRefusedError(
                f"The tensor {tensor.name} is stored as {tensor.kind.name}.",
                "the tensor types that the gguf library can read.",
                "choose the F16, Q8_0 or Q4_K_M file of the same model.",
            ) from error
        return values.astype(np.float32 if vector else np.float16)

    return load
