"""Requests and responses of the Triton model `completion`, as protobuf messages. Pure.

The tensor signature is the model's contract (docs/triton-contract.md). Raw contents are
little-endian, as the KServe v2 protocol has them.
"""

from __future__ import annotations

import struct
from typing import Any

from tritonclient.grpc import service_pb2

from orchestrator.generation.inference import (
    EngineFailureError,
    EngineReport,
    FinishReason,
    InferenceError,
    InferenceRequest,
    ReplicaUnavailableError,
    RequestRejectedError,
    TokenGroup,
)

MODEL = "completion"
InferRequest: Any = service_pb2.ModelInferRequest  # type: ignore[attr-defined]  # made at run time
StreamInferResponse: Any = service_pb2.ModelStreamInferResponse  # type: ignore[attr-defined]  # so too
_INT32, _INT64, _BOOL, _UINT8 = "INT32", "INT64", "BOOL", "UINT8"

# The replica names the code in the message itself. Triton could turn errors into gRPC statuses
# (`triton_grpc_error`), but with that set the server crashes after some hundreds of them.
_ERROR_OF_CODE: dict[str, type[InferenceError]] = {
    "INVALID_ARGUMENT": RequestRejectedError,
    "RESOURCE_EXHAUSTED": ReplicaUnavailableError,
    "UNAVAILABLE": ReplicaUnavailableError,
}


def request_message(request: InferenceRequest) -> Any:
    """A `ModelInferRequest` with every tensor in `raw_input_contents`, in the inputs' order."""
    prompt, salt = request.token_ids, request.cache_salt
    message = InferRequest(model_name=MODEL)
    tensors: tuple[tuple[str, str, int, bytes], ...] = (
        ("input_ids", _INT32, len(prompt), prompt.tobytes()),
        ("request_output_len", _INT32, 1, struct.pack("<i", request.max_tokens)),
        ("cache_salt", _UINT8, len(salt), salt),
        ("stop_rule", _INT32, 1, struct.pack("<i", request.stop_rule)),
        ("streaming", _BOOL, 1, struct.pack("<?", request.streaming)),
        ("deadline_ms", _INT64, 1, struct.pack("<q", request.remaining_ms)),
    )
    for name, datatype, length, content in tensors:
        message.inputs.add(name=name, datatype=datatype, shape=(length,))
        message.raw_input_contents.append(content)
    return message


def token_group(message: Any) -> TokenGroup:
    """The tokens and, where it carries them, the report of a `ModelStreamInferResponse`.

    Raises the `InferenceError` of an error message, and `EngineFailureError` for a response that
    does not keep to the contract.
    """
    if message.error_message:
        code, _, _ = message.error_message.partition(":")
        raise _ERROR_OF_CODE.get(code, EngineFailureError)
    response = message.infer_response
    contents = dict(
        zip(
            (output.name for output in response.outputs), response.raw_output_contents, strict=False
        )
    )
    tokens = contents.get("output_ids", b"")
    try:
        token_ids = struct.unpack(f"<{len(tokens) // 4}i", tokens)
        report = _report(contents) if "finish_reason" in contents else None
    except (struct.error, KeyError, ValueError) as error:
        raise EngineFailureError from error
    return TokenGroup(token_ids, report)


def _report(contents: dict[str, bytes]) -> EngineReport:
    (reason,) = struct.unpack("<i", contents["finish_reason"])
    (cached,) = struct.unpack("<i", contents["cached_tokens"])
    times = (struct.unpack("<q", contents[f"{name}_us"])[0] for name in _STAGES)
    return EngineReport(FinishReason(reason), cached, *times)


_STAGES = ("queue", "prefill", "decode")
