"""A bounded table whose entries expire when they are not used. Pure: time is handed in.

Least recently used first out. Order of use is also order of age, so expired entries are always at
the front and cost nothing to find.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class IdleTable(Generic[Key, Value]):
    """Holds at most `entries_max` entries, each until `idle_ms` after it was put last."""

    def __init__(self, entries_max: int, idle_ms: float) -> None:
        self._entries_max = entries_max
        self._idle_ms = idle_ms
        self._entries: OrderedDict[Key, tuple[float, Value]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key, now_ms: float) -> Value | None:
        """The value, None where there is none or it has expired. Does not count as a use."""
        used_ms, value = self._entries.get(key, (now_ms, None))
        return None if now_ms - used_ms >= self._idle_ms else value

    def put(self, key: Key, value: Value, now_ms: float) -> None:
        """Sets the value, which is a use, and lets go of what has expired or is too much."""
        self._entries[key] = (now_ms, value)
        self._entries.move_to_end(key)
        self._drop(now_ms)

    def amend(self, key: Key, value: Value) -> None:
        """Sets the value of an entry that is there, without counting as a use."""
        if key in self._entries:
            self._entries[key] = (self._entries[key][0], value)

    def _drop(self, now_ms: float) -> None:
        entries = self._entries
        while len(entries) > self._entries_max:
            entries.popitem(last=False)
        while entries and now_ms - next(iter(entries.values()))[0] >= self._idle_ms:
            entries.popitem(last=False)
