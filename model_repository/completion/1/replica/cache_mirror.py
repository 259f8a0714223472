"""A mirror of openvino-genai's block manager, because the library does not say what it reused.

It replays, call for call, what the library's block manager does with a request, keeping hashes and
never tokens, and so knows how many prompt tokens a request took from the cache, how many blocks
are in use, which sessions are warm and what was evicted.

Facts about the algorithm, read in openvino.genai's `block_manager.hpp`, `sequence_group.cpp` and
`scheduler.hpp` and held against the library by tests/component/replica/test_cache_mirror_oracle.py:

- A block is found by a hash over its tokens and the hashes of all blocks before it.
- A block is registered when it is allocated, under the hash of what it will hold; the last,
  partly filled block of a sequence is re-registered under its new content at each decode step.
- Lookup walks whole blocks, then tries 1 to 31 tokens of the first block it misses, the fewest
  first. If everything matches, the last prompt token is computed all the same.
- A block whose last holder leaves stays findable. Blocks never used come first, then the one that
  was looked up or taken longest ago is overwritten. Leaving does not make a block younger.
- When a block is left and another unheld one has the same hash, the other one is emptied.

What the mirror assumes, and `openvino_engine` guarantees: a prompt is computed whole in its first
step, and the pool always has room, so the library never splits or preempts a sequence.
"""

import heapq
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from replica.engine import CacheReport

_NO_HASH = 0


@dataclass(slots=True, eq=False)
class _Block:
    touched: int
    hash: int = _NO_HASH
    holders: int = 0
    partition: int | None = None


@dataclass(slots=True)
class _Sequence:
    partition: int | None
    tokens: list[int]
    prompt_tokens: int
    processed: int = 0
    chain: list[int] = field(default_factory=list)
    table: list[_Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Match:
    """What a lookup would find.

    Attributes:
        tokens: prompt tokens that need no computing.
        last_block_is_open: the last block found has room that this prompt would write into.
        last_block_is_held: another sequence holds that block now.
    """

    tokens: int
    last_block_is_open: bool
    last_block_is_held: bool


class CacheMirror:
    """The block pool as the library sees it; a session's blocks share a partition."""

    def __init__(self, blocks_total: int, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._clock = blocks_total
        self._free = deque(_Block(touched=index) for index in range(blocks_total))
        self._unheld: dict[int, _Block] = {}
        self._oldest: list[tuple[int, int, _Block]] = []
        self._pushes = 0
        self._registered: dict[int, _Block] = {}
        self._sequences: dict[int, _Sequence] = {}
        self._blocks_of_partition: Counter[int] = Counter()
        self._blocks_total = blocks_total
        self._evictions = 0

    def peek(self, prompt: Sequence[int]) -> Match:
        """What `add` would find for `prompt` now."""
        probe = _Sequence(None, list(prompt), len(prompt))
        found, last = self._find(probe)
        covered = sum(length for _, length in found)
        return Match(
            tokens=covered - 1 if covered == len(prompt) else covered,
            last_block_is_open=0 < covered < len(prompt) and covered % self._block_tokens != 0,
            last_block_is_held=last is not None and last.holders > 0,
        )

    def add(self, sequence_id: int, prompt: Sequence[int], partition: int | None) -> int:
        """A request was added: it now holds the blocks it matches. Returns the tokens reused.

        Without a partition its blocks belong to no session.
        """
        sequence = _Sequence(partition, list(prompt), len(prompt))
        self._sequences[sequence_id] = sequence
        found, _ = self._find(sequence)
        for block_hash, length in found:
            block = self._unheld.pop(block_hash, None) or self._registered[block_hash]
            block.holders += 1
            block.touched = self._tick()
            sequence.table.append(block)
            sequence.processed += length
        if sequence.processed == len(prompt):
            sequence.processed -= 1
            if sequence.processed % self._block_tokens == 0:
                # Its last block holds only the token to compute again: the library lets go of it.
                self._leave(sequence.table.pop())
        return sequence.processed

    def prefill(self, sequence_id: int, tokens: int) -> None:
        """The step computed the next `tokens` of the prompt."""
        sequence = self._sequences[sequence_id]
        unused = -sequence.processed % self._block_tokens
        self._allocate(sequence, -(-max(0, tokens - unused) // self._block_tokens))
        sequence.processed += tokens

    def decode(self, sequence_id: int) -> None:
        """The step computed the token that `append` brought last."""
        sequence = self._sequences[sequence_id]
        sequence.processed += 1
        needed = -(-sequence.processed // self._block_tokens)
        if needed > len(sequence.table):
            self._allocate(sequence, needed - len(sequence.table))
        elif sequence.table[-1].holders > 1:
            shared = sequence.table[-1]
            sequence.table[-1] = self._take(sequence, self._hash(sequence, sequence.processed))
            self._leave(shared)
        else:
            self._rename(sequence.table[-1], self._hash(sequence, sequence.processed))

    def append(self, sequence_id: int, token: int) -> None:
        """The step sampled `token`."""
        self._sequences[sequence_id].tokens.append(token)

    def release(self, sequence_id: int) -> None:
        """The sequence ended or was cancelled: its blocks are no longer held by it."""
        for block in self._sequences.pop(sequence_id).table:
            self._leave(block)

    def blocks_held(self) -> int:
        """Blocks that at least one sequence holds."""
        return self._blocks_total - len(self._free) - len(self._unheld)

    def report(self) -> CacheReport:
        """Blocks that hold something findable or in use, evictions so far, distinct partitions."""
        return CacheReport(
            blocks_total=self._blocks_total,
            blocks_used=self._blocks_total - len(self._free),
            evictions_total=self._evictions,
            warm_sessions=len(self._blocks_of_partition),
        )

    def _find(self, sequence: _Sequence) -> tuple[list[tuple[int, int]], _Block | None]:
        """Hash and length of each block found, in order, and the last one itself."""
        found: list[tuple[int, int]] = []
        last = None
        total, size = sequence.prompt_tokens, self._block_tokens
        for start in range(0, total, size):
            lengths = [min(size, total - start)]
            block = self._lookup(sequence, start + lengths[0])
            if block is None:
                lengths = [i for i in range(1, size) if start + i <= total]
            for length in lengths:
                block = self._lookup(sequence, start + length)
                if block is not None:
                    break
            if block is None:
                break
            found.append((self._hash(sequence, start + length), length))
            last = block
            if length < size:
                break
        return found, last

    def _lookup(self, sequence: _Sequence, content: int) -> _Block | None:
        block_hash = self._hash(sequence, content)
        return self._unheld.get(block_hash) or self._registered.get(block_hash)

    def _hash(self, sequence: _Sequence, content: int) -> int:
        """Hash of the block that ends after `content` tokens, over all blocks before it."""
        size = self._block_tokens
        while len(sequence.chain) < content // size:
            start = len(sequence.chain) * size
            sequence.chain.append(self._block_hash(sequence, start, start + size))
        if content % size == 0:
            return sequence.chain[content // size - 1]
        return self._block_hash(sequence, content - content % size, content)

    def _block_hash(self, sequence: _Sequence, start: int, end: int) -> int:
        before = sequence.chain[start // self._block_tokens - 1] if start else None
        return hash((before, tuple(sequence.tokens[start:end])))

    def _allocate(self, sequence: _Sequence, count: int) -> None:
        if count == 0:
            return
        size = self._block_tokens
        if sequence.table:
            full = self._hash(sequence, len(sequence.table) * size)
            if sequence.table[-1].hash != full:
                self._rename(sequence.table[-1], full)
        for _ in range(count):
            content = min((len(sequence.table) + 1) * size, len(sequence.tokens))
            sequence.table.append(self._take(sequence, self._hash(sequence, content)))

    def _take(self, sequence: _Sequence, block_hash: int) -> _Block:
        if self._free:
            block = self._free.popleft()
        else:
            block = self._pop_oldest_unheld()
            self._registered.pop(block.hash, None)
            self._forget_partition(block)
            block.touched = self._tick()
            self._evictions += 1
        block.holders += 1
        block.hash = block_hash
        block.partition = sequence.partition
        if block.partition is not None:
            self._blocks_of_partition[block.partition] += 1
        self._registered[block_hash] = block
        return block

    def _rename(self, block: _Block, block_hash: int) -> None:
        self._registered.pop(block.hash, None)
        block.hash = block_hash
        self._registered[block_hash] = block

    def _leave(self, block: _Block) -> None:
        block.holders -= 1
        if block.holders:
            return
        twin = self._unheld.pop(block.hash, None)
        if twin is not None:
            self._free.append(twin)
            self._forget_partition(twin)
            if self._registered.get(twin.hash) is twin:
                del self._registered[twin.hash]
        self._unheld[block.hash] = block
        self._pushes += 1
        heapq.heappush(self._oldest, (block.touched, self._pushes, block))

    def _pop_oldest_unheld(self) -> _Block:
        """Entries of blocks that were taken up again since they were pushed are passed over."""
        while True:
            touched, _, block = heapq.heappop(self._oldest)
            if block.touched == touched and self._unheld.get(block.hash) is block:
                del self._unheld[block.hash]
                return block

    def _forget_partition(self, block: _Block) -> None:
        if block.partition is None:
            return
        self._blocks_of_partition[block.partition] -= 1
        if not self._blocks_of_partition[block.partition]:
            del self._blocks_of_partition[block.partition]
        block.partition = None

    def _tick(self) -> int:
        self._clock += 1
        return self._clock
