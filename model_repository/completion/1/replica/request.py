"""Tensors to a validated request: parse, don't validate.

The loop accepts only `GenerationRequest`, and only this module makes one. Messages name tensors,
limits and counts, never a token.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replica.errors import InvalidRequestError
from replica.manifest import EngineManifest
from replica.stop_rule import StopConditions, StopRule

SALT_BYTES_MIN = 16
SALT_BYTES_MAX = 64
STOP_WORDS_MAX = 64
STOP_WORD_TOKENS_MAX = 32

Tensors = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One checked request.

    Attributes:
        prompt_ids: the rendered prompt, without the salt.
        cache_salt: 16 to 64 bytes.
        stop: everything that ends the output.
        streaming: token groups as they come, or one response at the end.
        deadline_ms: milliseconds left on receipt; None for no deadline, 0 or less for too late.
    """

    prompt_ids: tuple[int, ...]
    cache_salt: bytes
    stop: StopConditions
    streaming: bool
    deadline_ms: int | None


def parse_request(tensors: Tensors, manifest: EngineManifest) -> GenerationRequest:
    """The request in `tensors` (by input name; absent optional inputs are left out).

    Raises:
        InvalidRequestError: a tensor is missing, has the wrong type or shape, or breaks a limit.
    """
    prompt_ids = _prompt_ids(tensors, manifest)
    output_tokens_max = _scalar(tensors, "request_output_len", np.int32)
    _check_length(len(prompt_ids), output_tokens_max, manifest)
    return GenerationRequest(
        prompt_ids=prompt_ids,
        cache_salt=_cache_salt(tensors),
        stop=StopConditions(
            output_tokens_max=output_tokens_max,
            end_ids=_end_ids(tensors, manifest),
            newline_ids=_newline_ids(tensors, manifest),
            stop_words=_stop_words(tensors, manifest),
        ),
        streaming=bool(_optional_scalar(tensors, "streaming", np.bool_, 0)),
        deadline_ms=(
            _scalar(tensors, "deadline_ms", np.int64) if "deadline_ms" in tensors else None
        ),
    )


def _tensor(tensors: Tensors, name: str, dtype: type[np.generic], rank: int) -> NDArray[np.generic]:
    if name not in tensors:
        raise InvalidRequestError(f"{name} is required and missing; send it with every request")
    tensor = tensors[name]
    if tensor.dtype != np.dtype(dtype) or tensor.ndim != rank:
        raise InvalidRequestError(
            f"{name} must be {np.dtype(dtype).name} with {rank} dimension(s), "
            f"is {tensor.dtype.name} with {tensor.ndim}"
        )
    return tensor


def _scalar(tensors: Tensors, name: str, dtype: type[np.generic]) -> int:
    tensor = _tensor(tensors, name, dtype, 1)
    if tensor.size != 1:
        raise InvalidRequestError(f"{name} must hold 1 value, holds {tensor.size}")
    return int(tensor.item())


def _optional_scalar(tensors: Tensors, name: str, dtype: type[np.generic], default: int) -> int:
    return _scalar(tensors, name, dtype) if name in tensors else default


def _ids(tensor: NDArray[np.generic], name: str, manifest: EngineManifest) -> tuple[int, ...]:
    ids = tuple(map(int, tensor.tolist()))
    outside = sum(not 0 <= token < manifest.vocabulary_size for token in ids)
    if outside:
        raise InvalidRequestError(
            f"{name} must hold ids from 0 to {manifest.vocabulary_size - 1}, {outside} of "
            f"{len(ids)} lie outside; use the tokenizer of the served engine"
        )
    return ids


def _prompt_ids(tensors: Tensors, manifest: EngineManifest) -> tuple[int, ...]:
    tensor = _tensor(tensors, "input_ids", np.int32, 1)
    if tensor.size == 0:
        raise InvalidRequestError("input_ids must hold at least 1 token, holds 0")
    if tensor.size > manifest.prompt_and_output_tokens_max:
        _check_length(tensor.size, 1, manifest)
    return _ids(tensor, "input_ids", manifest)


def _check_length(prompt: int, output: int, manifest: EngineManifest) -> None:
    if output < 1:
        raise InvalidRequestError(f"request_output_len must be at least 1, is {output}")
    limit = manifest.prompt_and_output_tokens_max
    if prompt + output > limit:
        raise InvalidRequestError(
            f"input_ids and request_output_len together may have {limit} tokens "
            f"({manifest.context_tokens} of context less {manifest.reserved_salt_tokens} for the "
            f"salt), have {prompt} + {output}; shorten the prompt"
        )


def _cache_salt(tensors: Tensors) -> bytes:
    tensor = _tensor(tensors, "cache_salt", np.uint8, 1)
    if not SALT_BYTES_MIN <= tensor.size <= SALT_BYTES_MAX:
        raise InvalidRequestError(
            f"cache_salt must have {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes, has {tensor.size}; "
            "send the keyed hash of the cache scope"
        )
    return tensor.tobytes()


def _end_ids(tensors: Tensors, manifest: EngineManifest) -> frozenset[int]:
    if "end_id" not in tensors:
        return manifest.end_ids
    return frozenset(_ids(_tensor(tensors, "end_id", np.int32, 1), "end_id", manifest))


def _newline_ids(tensors: Tensors, manifest: EngineManifest) -> frozenset[int]:
    rule = _optional_scalar(tensors, "stop_rule", np.int32, StopRule.NONE)
    if rule == StopRule.NONE:
        return frozenset()
    if rule == StopRule.NEWLINE:
        return manifest.newline_ids
    known = ", ".join(f"{known.value} ({known.name.lower()})" for known in StopRule)
    raise InvalidRequestError(f"stop_rule must be one of {known}, is {rule}")


def _stop_words(tensors: Tensors, manifest: EngineManifest) -> tuple[tuple[int, ...], ...]:
    """Row 0: the words' ids end to end. Row 1: where each word ends, then -1 as padding.

    The layout is that of TensorRT-LLM's `stop_words_list` input, without its batch dimension.
    """
    if "stop_words_list" not in tensors:
        return ()
    tensor = _tensor(tensors, "stop_words_list", np.int32, 2)
    if tensor.shape[0] != 2:
        raise InvalidRequestError(f"stop_words_list must have 2 rows, has {tensor.shape[0]}")
    ends = [int(end) for end in tensor[1].tolist() if end >= 0]
    starts = [0, *ends][: len(ends)]
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    if len(ends) > STOP_WORDS_MAX or any(not 1 <= n <= STOP_WORD_TOKENS_MAX for n in lengths):
        raise InvalidRequestError(
            f"stop_words_list may hold {STOP_WORDS_MAX} words of 1 to {STOP_WORD_TOKENS_MAX} "
            f"tokens with rising offsets, holds {len(ends)} words of {min(lengths)} to "
            f"{max(lengths)}"
        )
    if ends and ends[-1] > tensor.shape[1]:
        raise InvalidRequestError(
            f"stop_words_list's last offset may be {tensor.shape[1]}, is {ends[-1]}"
        )
    ids = _ids(tensor[0][: ends[-1]], "stop_words_list", manifest) if ends else ()
    return tuple(ids[start:end] for start, end in zip(starts, ends, strict=True))
