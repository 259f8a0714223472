"""Tensors to a request. The contract suite holds the refusals; here is what it cannot see."""

import numpy as np
import pytest

from replica.errors import InvalidRequestError
from replica.manifest import EngineManifest
from replica.request import Tensors, parse_request


def tensors(**changes: np.ndarray) -> Tensors:
    return {
        "input_ids": np.array([5, 6, 7], dtype=np.int32),
        "request_output_len": np.array([4], dtype=np.int32),
        "cache_salt": np.arange(16, dtype=np.uint8),
        **changes,
    }


def test_the_smallest_request_takes_the_manifests_end_ids(manifest: EngineManifest) -> None:
    request = parse_request(tensors(), manifest)
    assert request.prompt_ids == (5, 6, 7)
    assert request.cache_salt == bytes(range(16))
    assert request.stop.output_tokens_max == 4
    assert request.stop.end_ids == manifest.end_ids
    assert request.stop.newline_ids == frozenset()
    assert request.streaming is False
    assert request.deadline_ms is None


def test_every_optional_tensor_is_read(manifest: EngineManifest) -> None:
    request = parse_request(
        tensors(
            end_id=np.array([3, 4], dtype=np.int32),
            stop_words_list=np.array([[7, 8, 9, 0], [1, 3, -1, -1]], dtype=np.int32),
            stop_rule=np.array([1], dtype=np.int32),
            streaming=np.array([True]),
            deadline_ms=np.array([250], dtype=np.int64),
        ),
        manifest,
    )
    assert request.stop.end_ids == {3, 4}
    assert request.stop.stop_words == ((7,), (8, 9))
    assert request.stop.newline_ids == manifest.newline_ids
    assert request.streaming is True
    assert request.deadline_ms == 250


@pytest.mark.parametrize("name", ["input_ids", "request_output_len", "cache_salt"])
def test_a_missing_required_tensor_is_named(manifest: EngineManifest, name: str) -> None:
    sent = dict(tensors())
    del sent[name]
    with pytest.raises(InvalidRequestError, match=f"{name} is required"):
        parse_request(sent, manifest)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("input_ids", np.array([[5]], dtype=np.int32), r"int32 with 1 dimension\(s\), is int32 wi"),
        ("cache_salt", np.zeros(16, dtype=np.int8), "must be uint8"),
        ("streaming", np.array([1], dtype=np.int32), "must be bool"),
        ("deadline_ms", np.array([1, 2], dtype=np.int64), "must hold 1 value, holds 2"),
        ("stop_words_list", np.zeros((3, 2), dtype=np.int32), "2 rows, has 3"),
        ("stop_words_list", np.zeros((2, 70), dtype=np.int32), "64 words .* holds 70"),
    ],
)
def test_a_tensor_of_the_wrong_form_is_refused(
    manifest: EngineManifest, name: str, value: np.ndarray, words: str
) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        parse_request(tensors(**{name: value}), manifest)


def test_an_empty_list_of_stop_words_is_no_stop_word(manifest: EngineManifest) -> None:
    for shape in ((2, 0), (2, 3)):
        words = np.full(shape, -1, dtype=np.int32)
        assert parse_request(tensors(stop_words_list=words), manifest).stop.stop_words == ()


def test_no_message_holds_a_token(manifest: EngineManifest) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_request(tensors(input_ids=np.array([7777, 99999], dtype=np.int32)), manifest)
    assert "7777" not in str(refused.value)
    assert "99999" not in str(refused.value)
