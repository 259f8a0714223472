"""A bounded table of the tokens of texts that outlive a keystroke.

It may only save time: without it the same tokens come out. It is partitioned as the engine's cache
is, because the time an encoding takes would otherwise tell one session what another one sent, and
it keeps keyed digests of texts, not the texts.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from orchestrator.prompt.parts import Encode, Segment

_TEXT_CHARS_MIN = 32
"""Shorter texts are encoded in less time than they are looked up."""

_ENTRY_TOKENS = 32
"""What an entry counts beside its tokens, so that empty ones are bounded too."""


class SegmentTable:
    """Least recently used first out; holds at most `tokens_max` tokens."""

    def __init__(self, tokens_max: int = 4_000_000) -> None:
        self._tokens_max = tokens_max
        self._tokens = 0
        self._segments: OrderedDict[bytes, Segment] = OrderedDict()

    def of(self, partition: bytes) -> PartitionSegments:
        """The table as one partition (a key of up to 64 bytes) sees it."""
        return PartitionSegments(self, partition)

    def get(self, key: bytes, make: Callable[[], Segment]) -> Segment:
        """The segment under `key`; made and kept where it is not there."""
        known = self._segments.get(key)
        if known is not None:
            self._segments.move_to_end(key)
            return known
        made = make()
        self._segments[key] = made
        self._tokens += _weight(made)
        while self._tokens > self._tokens_max and self._segments:
            _, oldest = self._segments.popitem(last=False)
            self._tokens -= _weight(oldest)
        return made


class PartitionSegments:
    """A `SegmentTable` with one partition's keys; nothing of another partition is found by it."""

    def __init__(self, table: SegmentTable, partition: bytes) -> None:
        self._table = table
        self._partition = partition

    def encoder(self, encode: Encode) -> Encode:
        """`encode` with the table in front."""

        def encode_segment(text: str) -> array[int]:
            if len(text) < _TEXT_CHARS_MIN:
                return encode(text)
            content = text.encode("utf-8", "surrogatepass")
            key = self._key(content, b"text")
            return self._table.get(key, lambda: Segment(encode(text))).token_ids

        return encode_segment

    def remember(self, key: bytes, make: Callable[[], Segment]) -> Segment:
        """The segment under a key of the caller's; made and kept where it is not there."""
        return self._table.get(self._key(key, b"section"), make)

    def _key(self, content: bytes, kind: bytes) -> bytes:
        return blake2b(content, digest_size=16, key=self._partition, person=kind).digest()


def _weight(segment: Segment) -> int:
    return _ENTRY_TOKENS + len(segment.token_ids)
