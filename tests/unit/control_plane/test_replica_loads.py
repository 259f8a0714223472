"""`LoadPoller` against a listener of this process: what it makes of each kind of answer."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from control_plane import replica_loads
from control_plane.fleet_state import ReplicaLoad
from control_plane.replica_loads import BYTES_MAX, LoadPoller
from control_plane.topology import Replica

LOAD = {"live_sequences": 2, "waiting_sequences": 1, "warm_sessions": 7, "step_us": 5}


class Listener:
    """Answers /healthz and /load as told; counts its connections."""

    def __init__(self) -> None:
        self.health = 200
        self.load: tuple[int, bytes] = (200, json.dumps(LOAD).encode())
        self.connections = 0
        self.closes_after: int | None = None
        self.is_silent = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        answered = 0
        while head := await reader.readline():
            if self.is_silent:
                await reader.read()
                break
            answered += 1
            while (await reader.readline()).strip():
                pass
            status, body = self.load if b"/load" in head else (self.health, b"ok")
            length = f"content-length: {len(body)}"
            writer.write(f"HTTP/1.1 {status} X\r\n{length}\r\n\r\n".encode() + body)
            if answered == self.closes_after:
                break
        writer.close()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest_asyncio.fixture
async def replica(listener: Listener) -> AsyncIterator[Replica]:
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield Replica("slot-0", "127.0.0.1", 1, port)
    server.close()


@pytest_asyncio.fixture
async def poller() -> AsyncIterator[LoadPoller]:
    made = LoadPoller()
    yield made
    made.close()


async def test_health_and_load_are_read_over_one_connection(
    poller: LoadPoller, replica: Replica, listener: Listener
) -> None:
    for _ in range(3):
        seen = (await poller.observe([replica]))["slot-0"]
    assert (seen.is_ready, seen.load) == (True, ReplicaLoad(2, 1, 7))
    assert listener.connections == 1


async def test_a_replica_that_is_not_ready_still_tells_its_load(
    poller: LoadPoller, replica: Replica, listener: Listener
) -> None:
    listener.health = 503
    seen = (await poller.observe([replica]))["slot-0"]
    assert (seen.is_ready, seen.load) == (False, ReplicaLoad(2, 1, 7))


@pytest.mark.parametrize(
    "load",
    [
        (404, b"no such page"),
        (200, b"{"),
        (200, b'{"live_sequences": 1, "waiting_sequences": 0}'),
        (200, b'{"live_sequences": -1, "waiting_sequences": 0, "warm_sessions": 0}'),
        (200, b" " * BYTES_MAX + json.dumps(LOAD).encode()),
    ],
)
async def test_a_load_that_cannot_be_used_is_unknown(
    poller: LoadPoller, replica: Replica, listener: Listener, load: tuple[int, bytes]
) -> None:
    listener.load = load
    assert (await poller.observe([replica]))["slot-0"].load is None


async def test_a_connection_that_the_replica_closed_is_opened_again(
    poller: LoadPoller, replica: Replica, listener: Listener
) -> None:
    listener.closes_after = 3
    for _ in range(3):
        seen = (await poller.observe([replica]))["slot-0"]
        assert (seen.is_ready, seen.load) == (True, ReplicaLoad(2, 1, 7))
    assert listener.connections == 2


async def test_a_silent_replica_is_unknown_and_asked_afresh(
    poller: LoadPoller, replica: Replica, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_loads, "TIMEOUT_S", 0.05)
    listener.is_silent = True
    assert (await poller.observe([replica]))["slot-0"].load is None
    listener.is_silent = False
    monkeypatch.setattr(replica_loads, "TIMEOUT_S", 5.0)
    assert (await poller.observe([replica]))["slot-0"].load == ReplicaLoad(2, 1, 7)


async def test_the_connection_of_a_slot_that_left_is_closed(
    poller: LoadPoller, replica: Replica, listener: Listener
) -> None:
    await poller.observe([replica])
    assert await poller.observe([]) == {}
    await poller.observe([replica])
    assert listener.connections == 2


async def test_a_replica_that_is_gone_is_not_ready_and_unknown(poller: LoadPoller) -> None:
    seen = await poller.observe([Replica("slot-0", "127.0.0.1", 1, 1)])
    assert (seen["slot-0"].is_ready, seen["slot-0"].load) == (False, None)
