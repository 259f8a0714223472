import struct
from array import array
from typing import Any

import pytest

from orchestrator.generation.inference import (
    EngineFailureError,
    EngineReport,
    FinishReason,
    InferenceError,
    InferenceRequest,
    ReplicaUnavailableError,
    RequestRejectedError,
    StopRule,
    TokenGroup,
)
from orchestrator.generation.triton_messages import (
    InferRequest,
    StreamInferResponse,
    request_message,
    token_group,
)

REQUEST = InferenceRequest(
    pool="fast",
    session_key="k",
    token_ids=array("i", [6, 300, 2]),
    cache_salt=b"s" * 32,
    max_tokens=64,
    stop_rule=StopRule.NEWLINE,
    streaming=False,
    remaining_ms=250,
)


def response(**outputs: bytes) -> Any:
    message = StreamInferResponse()
    for name, content in outputs.items():
        message.infer_response.outputs.add(name=name)
        message.infer_response.raw_output_contents.append(content)
    return message


def final(**changes: bytes) -> Any:
    outputs = {
        "output_ids": struct.pack("<2i", 300, 301),
        "finish_reason": struct.pack("<i", 2),
        "cached_tokens": struct.pack("<i", 800),
        "queue_us": struct.pack("<q", 1),
        "prefill_us": struct.pack("<q", 2),
        "decode_us": struct.pack("<q", 3),
    }
    return response(**outputs | changes)


def test_a_request_carries_every_tensor_of_the_contract() -> None:
    message = InferRequest.FromString(request_message(REQUEST).SerializeToString())
    raw = dict(zip((each.name for each in message.inputs), message.raw_input_contents, strict=True))
    kinds = {each.name: (each.datatype, list(each.shape)) for each in message.inputs}
    assert message.model_name == "completion"
    assert kinds == {
        "input_ids": ("INT32", [3]),
        "request_output_len": ("INT32", [1]),
        "cache_salt": ("UINT8", [32]),
        "stop_rule": ("INT32", [1]),
        "streaming": ("BOOL", [1]),
        "deadline_ms": ("INT64", [1]),
    }
    assert struct.unpack("<3i", raw["input_ids"]) == (6, 300, 2)
    assert raw["cache_salt"] == b"s" * 32
    assert struct.unpack("<q", raw["deadline_ms"]) == (250,)
    assert raw["streaming"] == b"\0"


def test_a_group_carries_tokens_only_and_the_last_one_the_report() -> None:
    assert token_group(response(output_ids=struct.pack("<i", 7))) == TokenGroup((7,))
    report = EngineReport(FinishReason.STOP_RULE, 800, 1, 2, 3)
    assert token_group(final()) == TokenGroup((300, 301), report)


def test_an_empty_last_response_is_a_group_without_tokens() -> None:
    assert token_group(response()) == TokenGroup(())


@pytest.mark.parametrize(
    "message",
    [
        StreamInferResponse(error_message="quotes the prompt"),
        final(finish_reason=struct.pack("<i", 99)),
        final(queue_us=b"\0"),
        response(output_ids=b"\0\0\0"),
        response(finish_reason=struct.pack("<i", 1)),
    ],
)
def test_an_answer_outside_of_the_contract_is_an_engine_failure_without_words(
    message: Any,
) -> None:
    with pytest.raises(EngineFailureError) as caught:
        token_group(message)
    assert str(caught.value) == ""


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("INVALID_ARGUMENT", RequestRejectedError),
        ("RESOURCE_EXHAUSTED", ReplicaUnavailableError),
        ("UNAVAILABLE", ReplicaUnavailableError),
        ("INTERNAL", EngineFailureError),
    ],
)
def test_a_replicas_error_message_begins_with_its_code(
    code: str, error: type[InferenceError]
) -> None:
    with pytest.raises(error) as caught:
        token_group(StreamInferResponse(error_message=f"{code}: quotes the prompt"))
    assert str(caught.value) == ""
