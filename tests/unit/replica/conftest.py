"""A manifest, a clock and a responder for the replica's unit tests."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from replica.errors import ReplicaError
from replica.manifest import EngineManifest
from replica.sequence import Summary


@pytest.fixture
def manifest() -> EngineManifest:
    return EngineManifest(
        engine_digest="sha256:test",
        context_tokens=1536,
        reserved_salt_tokens=8,
        vocabulary_size=8192,
        block_tokens=32,
        end_ids=frozenset({0}),
        control_ids=frozenset({0, 1, 2}),
        newline_ids=frozenset(range(8, 8192, 8)),
        layers=6,
        key_value_heads=2,
        head_dim=64,
        weights=Path("model.gguf"),
    )


@dataclass
class FakeClock:
    """Microseconds that pass only when someone waits."""

    now_us: int = 1_000_000

    def __call__(self) -> int:
        return self.now_us

    def wait(self, duration_us: int) -> None:
        self.now_us += duration_us


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@dataclass
class FakeResponder:
    """Keeps what was sent; `cancelled` is what the caller did."""

    cancelled: bool = False
    checks: int = 0
    groups: list[tuple[int, ...]] = field(default_factory=list)
    summary: Summary | None = None
    error: ReplicaError | None = None
    broken: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def is_cancelled(self) -> bool:
        self.checks += 1
        return self.cancelled

    def send(self, token_ids: Sequence[int], summary: Summary | None) -> None:
        if self.broken:
            raise ConnectionError
        assert self.summary is None
        assert self.error is None
        self.groups.append(tuple(token_ids))
        self.summary = summary
        if summary:
            self.ended.set()

    def fail(self, error: ReplicaError) -> None:
        assert self.summary is None
        assert self.error is None
        self.error = error

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for group in self.groups for token in group)
