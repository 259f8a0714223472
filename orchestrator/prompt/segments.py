"""A bounded table of the tokens of texts that outlive a keystroke.

It may only save time: without it the same tokens come out. It is partitioned as the engine's cache
is, because the time an encoding takes would otherwise tell one session what another one sent, and
it keeps keyed digests of texts, not the texts.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from hashlib import blake2b

from orchestrator.prompt.parts import Encode

_TEXT_CHARS_MIN = 32
"""Shorter texts are encoded in less time than they are looked up."""


class SegmentTable:
    """Least recently used first out; holds at most `tokens_max` tokens."""

    def __init__(self, tokens_max: int = 4_000_000) -> None:
        self._tokens_max = tokens_max
        self._tokens = 0
        self._segments: OrderedDict[bytes, array[int]] = OrderedDict()

    def encoder(self, encode: Encode, partition: bytes) -> Encode:
        """`encode` with this table in front, for one partition (a key of up to 64 bytes)."""

        def encode_segment(text: str) -> array[int]:
            if len(text) < _TEXT_CHARS_MIN:
                return encode(text)
            key = blake2b(
                text.encode("utf-8", "surrogatepass"), digest_size=16, key=partition
            ).digest()
            known = self._segments.get(key)
            if known is not None:
                self._segments.move_to_end(key)
                return known
            ids = encode(text)
            self._keep(key, ids)
            return ids

        return encode_segment

    def _keep(self, key: bytes, ids: array[int]) -> None:
        self._segments[key] = ids
        self._tokens += len(ids)
        while self._tokens > self._tokens_max:
            _, oldest = self._segments.popitem(last=False)
            self._tokens -= len(oldest)
