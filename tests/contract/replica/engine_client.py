"""One view of a replica for the contract suite: in this process with the fake, or behind gRPC."""

import json
import queue
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2, service_pb2_grpc

from replica.errors import ErrorCode, ReplicaError
from replica.runtime import Replica
from replica.sequence import Summary

ANSWER_LIMIT_S = 60.0
# Triton checks names, types and ranks itself; what it says has no code of ours.
REFUSED_BY_TRITON = "REFUSED_BY_TRITON"
CODES = {code.name for code in ErrorCode}
INPUT_TYPES = {
    "input_ids": np.int32,
    "request_output_len": np.int32,
    "cache_salt": np.uint8,
    "end_id": np.int32,
    "stop_words_list": np.int32,
    "stop_rule": np.int32,
    "streaming": np.bool_,
    "deadline_ms": np.int64,
}
DATATYPES = {
    "int32": "INT32",
    "uint8": "UINT8",
    "bool": "BOOL",
    "int64": "INT64",
    "float32": "FP32",
}


@dataclass(frozen=True)
class Response:
    """One response; the last one has everything beside the tokens."""

    output_ids: tuple[int, ...]
    is_last: bool
    values: dict[str, int] = field(default_factory=dict)


class RefusedError(Exception):
    """The request was answered by an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Call(Protocol):
    """A request under way."""

    def responses(self) -> Iterator[Response]: ...

    def cancel(self) -> None: ...


class Target(Protocol):
    """What the cases run against."""

    def start(self, tensors: dict[str, NDArray[Any]]) -> Call: ...

    def load(self) -> dict[str, Any]: ...


def tensors_of(**values: object) -> dict[str, NDArray[Any]]:
    """Tensors from Python values; an array is taken as it is, None leaves the tensor out."""
    tensors = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            tensors[name] = value
        elif isinstance(value, bytes):
            tensors[name] = np.frombuffer(value, dtype=np.uint8)
        elif value is not None:
            tensors[name] = np.atleast_1d(np.array(value, dtype=INPUT_TYPES[name]))
    return tensors


def read_load(status_port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{status_port}/load", timeout=10) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


class InProcessCall:
    """Is the responder too: what the loop sends goes through a queue to the test."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Response | RefusedError] = queue.Queue()
        self._cancelled = False

    def responses(self) -> Iterator[Response]:
        while True:
            item = self._queue.get(timeout=ANSWER_LIMIT_S)
            if isinstance(item, RefusedError):
                raise item
            yield item
            if item.is_last:
                return

    def cancel(self) -> None:
        self._cancelled = True

    def is_cancelled(self) -> bool:
        return self._cancelled

    def send(self, token_ids: Sequence[int], summary: Summary | None) -> None:
        values: dict[str, int] = {}
        if summary is not None:
            values = {name: int(getattr(summary, name)) for name in Summary.__slots__}
        self._queue.put(Response(tuple(token_ids), summary is not None, values))

    def fail(self, error: ReplicaError) -> None:
        self._queue.put(RefusedError(error.code.name, str(error)))


class InProcessTarget:
    """A replica in this process."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def start(self, tensors: dict[str, NDArray[Any]]) -> Call:
        call = InProcessCall()
        try:
            self._replica.submit(tensors, call)
        except ReplicaError as error:
            call.fail(error)
        return call

    def load(self) -> dict[str, Any]:
        return read_load(self._replica.status_port)


class GrpcCall:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def responses(self) -> Iterator[Response]:
        try:
            for message in self._stream:
                if message.error_message:
                    raise refusal_of(message.error_message)
                yield response_of(message.infer_response)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.CANCELLED:
                return
            raise RefusedError(error.code().name, error.details()) from None

    def cancel(self) -> None:
        self._stream.cancel()


class GrpcTarget:
    """A replica behind Triton's gRPC front end."""

    def __init__(self, grpc_port: int, status_port: int) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{grpc_port}")
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self._status_port = status_port

    def start(self, tensors: dict[str, NDArray[Any]]) -> Call:
        request = iter([request_of(tensors)])
        stream = self.stub.ModelStreamInfer(request, timeout=ANSWER_LIMIT_S)
        return GrpcCall(stream)

    def load(self) -> dict[str, Any]:
        return read_load(self._status_port)


def refusal_of(message: str) -> RefusedError:
    code, _, words = message.partition(": ")
    return RefusedError(code, words) if code in CODES else RefusedError(REFUSED_BY_TRITON, message)


def request_of(tensors: dict[str, NDArray[Any]]) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name="completion")
    for name, tensor in tensors.items():
        entry = request.inputs.add(name=name, datatype=DATATYPES[tensor.dtype.name])
        entry.shape.extend(tensor.shape)
        request.raw_input_contents.append(tensor.tobytes())
    return request


def response_of(answer: service_pb2.ModelInferResponse) -> Response:
    types = {"INT32": np.int32, "INT64": np.int64}
    outputs = {
        output.name: np.frombuffer(raw, dtype=types[output.datatype]).tolist()
        for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
    }
    tokens = tuple(outputs.pop("output_ids", ()))
    is_last = answer.parameters["triton_final_response"].bool_param
    return Response(tokens, is_last, {name: value[0] for name, value in outputs.items()})
