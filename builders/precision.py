"""Which tensor kinds the CPU engine reads faithfully, and the conversion of the others.

openvino-genai 2026.4.1 was compared with a forward pass over the unpacked weights: F16 and Q8_0
agree to 1e-4 nats. Q4_K does not (up to 0.5 nats), because the engine rounds each group's offset
to a whole quantisation step, and Q5_0, Q5_1, BF16 and F32 matrices do not load at all. So
everything but F16 and Q8_0 is converted (docs/engine-manifest.md has the figures).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize, quantize

from builders.checkpoints.checkpoint import StoredTensor
from builders.refusals import BuildRefusedError

F16, F32 = GGMLQuantizationType.F16, GGMLQuantizationType.F32
Q8_0, BF16 = GGMLQuantizationType.Q8_0, GGMLQuantizationType.BF16


def engine_kind(tensor: StoredTensor) -> GGMLQuantizationType:
    """The kind that the engine gets `tensor` in.

    Vectors (norms and biases) become F32, float matrices F16. Quantised matrices become Q8_0, which
    costs up to 0.05 nats and half the memory of F16; a row that Q8_0's blocks of 32 do not divide
    becomes F16.
    """
    if len(tensor.shape) == 1:
        return F32
    block_elements, _ = GGML_QUANT_SIZES[Q8_0]
    if tensor.kind in {F16, F32, BF16} or tensor.shape[-1] % block_elements:
        return F16
    return Q8_0


def as_engine_tensor(tensor: StoredTensor) -> StoredTensor:
    """The tensor in its `engine_kind`, untouched where it has it already."""
    kind = engine_kind(tensor)
    if tensor.kind is kind:
        return tensor
    return replace(tensor, kind=kind, load=_converter(tensor, kind))


def _converter(tensor: StoredTensor, kind: GGMLQuantizationType) -> Callable[[], npt.NDArray[Any]]:
    def load() -> npt.NDArray[Any]:
        try:
            values = dequantize(tensor.load(), tensor.kind)
        except NotImplementedError as error:
            raise BuildRefusedError(
                f"The tensor {tensor.name} is stored as {tensor.kind.name}.",
                "the tensor types that the gguf library can unpack.",
                "choose the F16, Q8_0 or Q4_K_M file of the same model.",
            ) from error
        converted: npt.NDArray[Any] = quantize(values, kind)
        return converted

    return load
