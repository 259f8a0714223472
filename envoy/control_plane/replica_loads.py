"""Asks the replicas for their health and load, off the request path. Decides nothing.

It speaks just enough HTTP/1.1 itself, over one connection to each replica. One look at 200
replicas costs 12 ms of CPU (`tests/component/envoy/measure_polling.py`); the same with httpx, whose
pool goes through all its connections for each request, took 3.4 s.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from .fleet_state import Observation, ReplicaLoad
from .topology import Replica

TIMEOUT_S: Final = 0.8
BYTES_MAX: Final = 64 * 1024
_TOGETHER_MAX: Final = 64
_OK: Final = 200
# What a peer that is gone, closes in the middle or speaks something else gives.
_FAULTS: Final = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)


class _Answer(NamedTuple):
    status: int
    body: bytes


class _Connection:
    """One replica's status listener; reconnects when it has to."""

    def __init__(self, address: str, port: int) -> None:
        self._place = (address, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> _Answer:
        """One GET; raises one of `_FAULTS`. A kept connection that proves dead is tried once."""
        if self._streams is not None:
            with contextlib.suppress(*_FAULTS):
                return await self._ask(path, *self._streams)
            self.close()
        self._streams = await asyncio.open_connection(*self._place, limit=BYTES_MAX)
        try:
            return await self._ask(path, *self._streams)
        except _FAULTS:
            self.close()
            raise

    async def _ask(
        self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Answer:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: replica\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status, *lines = head.strip().split("\r\n")
        fields = dict(line.split(":", 1) for line in lines)
        length = int(fields["content-length"]) if "content-length" in fields else -1
        if not 0 <= length <= BYTES_MAX:
            raise ValueError(f"a body must have 0 to {BYTES_MAX} bytes, says {length}")
        answer = _Answer(int(status.split(" ")[1]), await reader.readexactly(length))
        if fields.get("connection", "").strip() == "close":
            self.close()
        return answer

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class LoadPoller:
    """Keeps one connection to each replica; `close` it at the end."""

    def __init__(self) -> None:
        self._connections: dict[tuple[str, int], _Connection] = {}
        self._together = asyncio.Semaphore(_TOGETHER_MAX)

    async def observe(self, replicas: Iterable[Replica]) -> dict[str, Observation]:
        """One look at every replica; one that does not answer is not ready, its load unknown."""
        places = {replica.slot: (replica.address, replica.status_port) for replica in replicas}
        self._forget(set(self._connections) - set(places.values()))
        seen = await asyncio.gather(*(self._observe(place) for place in places.values()))
        return dict(zip(places, seen, strict=True))

    def close(self) -> None:
        """Close the connections."""
        self._forget(set(self._connections))

    def _forget(self, places: Iterable[tuple[str, int]]) -> None:
        for place in places:
            self._connections.pop(place).close()

    async def _observe(self, place: tuple[str, int]) -> Observation:
        connection = self._connections.setdefault(place, _Connection(*place))
        async with self._together:
            asked_at_s = time.time()
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    health = await connection.get("/healthz")
                    load = await connection.get("/load")
            except _FAULTS:
                connection.close()  # what it may still say belongs to no question
                return Observation(asked_at_s, is_ready=False, load=None)
        return Observation(asked_at_s, health.status == _OK, _load_of(load))


def _load_of(answer: _Answer) -> ReplicaLoad | None:
    if answer.status != _OK:
        return None
    try:
        return msgspec.json.decode(answer.body, type=ReplicaLoad)
    except msgspec.MsgspecError:
        return None
