"""The Triton adapter: tensors in, responses out, nothing else.

Tensors cross by DLPack, because the Python backend's own NumPy conversion is built against NumPy 1
and silently yields wrong data with NumPy 2 (docs/triton-contract.md).
"""

import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

from replica.errors import ErrorCode, ReplicaError
from replica.parent_watch import when_parent_ends
from replica.runtime import Replica
from replica.sequence import Summary
from replica.settings import read_settings

INPUTS = (
    "input_ids",
    "request_output_len",
    "cache_salt",
    "end_id",
    "stop_words_list",
    "stop_rule",
    "streaming",
    "deadline_ms",
)
# A consumer marks a DLPack capsule as used by this name. The backend gives it another one, at
# which NumPy's capsule destructor prints a ValueError that nobody can catch. The capsule keeps a
# pointer to the name, so the bytes live as long as the module.
_USED_CAPSULE_NAME = b"used_dltensor"
_set_capsule_name = ctypes.pythonapi.PyCapsule_SetName
_set_capsule_name.argtypes = [ctypes.py_object, ctypes.c_char_p]


class TritonResponder:
    """One request's responses over Triton's response sender."""

    def __init__(self, sender: Any) -> None:
        self._sender = sender

    def is_cancelled(self) -> bool:
        """A round trip to the server process."""
        return bool(self._sender.is_cancelled())

    def send(self, token_ids: Sequence[int], summary: Summary | None) -> None:
        """Send tokens; with a summary, the last response."""
        tensors = [output_tensor("output_ids", token_ids, np.int32)]
        if summary is None:
            self._sender.send(pb_utils.InferenceResponse(tensors))
            return
        tensors += [
            output_tensor("finish_reason", [summary.finish_reason], np.int32),
            output_tensor("cached_tokens", [summary.cached_tokens], np.int32),
            output_tensor("queue_us", [summary.queue_us], np.int64),
            output_tensor("prefill_us", [summary.prefill_us], np.int64),
            output_tensor("decode_us", [summary.decode_us], np.int64),
        ]
        response = pb_utils.InferenceResponse(tensors)
        self._sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def fail(self, error: ReplicaError) -> None:
        """Send an error as the last response."""
        response = pb_utils.InferenceResponse([], triton_error(error))
        self._sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


class TritonPythonModel:
    """The class that the Python backend looks for."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the engine; Triton reports the model ready when this returns."""
        when_parent_ends(lambda: os._exit(1))
        self._replica = Replica(read_settings(os.environ))
        self._replica.start()

    def execute(self, requests: list[Any]) -> None:
        """Hand requests to the engine loop; it answers from its own thread."""
        for request in requests:
            responder = TritonResponder(request.get_response_sender())
            try:
                self._replica.submit(input_tensors(request), responder)
            except ReplicaError as error:
                responder.fail(error)

    def finalize(self) -> None:
        """Cancel what runs and end the threads.

        Whatever still refers to shared memory must be gone before the stub unmaps it.
        """
        self._replica.stop()
        gc.collect()


def input_tensors(request: Any) -> dict[str, NDArray[np.generic]]:
    """The inputs that were sent, by name, copied out of Triton's shared memory."""
    found = {name: pb_utils.get_input_tensor_by_name(request, name) for name in INPUTS}
    return {
        name: np.from_dlpack(tensor).copy() for name, tensor in found.items() if tensor is not None
    }


def output_tensor(name: str, values: Sequence[int], dtype: type[np.generic]) -> Any:
    """A Triton tensor with one dimension."""
    capsule = np.array(values, dtype=dtype).__dlpack__()
    tensor = pb_utils.Tensor.from_dlpack(name, capsule)
    _set_capsule_name(capsule, _USED_CAPSULE_NAME)
    return tensor


def triton_error(error: ReplicaError) -> Any:
    """The error in Triton's terms; its message begins with our code and a colon.

    Callers read the code there: a gRPC status they would get only with `triton_grpc_error`, which
    crashes the server (docs/triton-contract.md), and Triton has none for an exhausted resource.
    The backend provides `TritonError` only after this module is imported.
    """
    codes = {
        ErrorCode.INVALID_ARGUMENT: pb_utils.TritonError.INVALID_ARG,
        ErrorCode.RESOURCE_EXHAUSTED: pb_utils.TritonError.UNAVAILABLE,
        ErrorCode.UNAVAILABLE: pb_utils.TritonError.UNAVAILABLE,
        ErrorCode.INTERNAL: pb_utils.TritonError.INTERNAL,
    }
    return pb_utils.TritonError(f"{error.code.name}: {error}", codes[error.code])
