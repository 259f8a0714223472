"""Measures what one look at all replicas costs the control plane.

    PYTHONPATH=.:envoy python -m tests.component.envoy.measure_polling

The replicas are listeners of another process, so that only the asking side is counted.
"""

import asyncio
import json
import sys
import time

from control_plane.replica_loads import LoadPoller
from control_plane.topology import Replica

LOAD = b'{"live_sequences": 3, "waiting_sequences": 0, "warm_sessions": 40, "step_us": 2500}'
LOOKS = 5


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer everything with a load, until the peer closes."""
    while await reader.readline():
        while (await reader.readline()).strip():
            pass
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(LOAD) + LOAD)
    writer.close()


async def listen(count: int) -> None:
    """Print the ports of `count` listeners; end when standard input does."""
    servers = [await asyncio.start_server(answer, "127.0.0.1", 0) for _ in range(count)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def measure(count: int) -> None:
    """Print the cost of a look at `count` replicas."""
    listeners = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.component.envoy.measure_polling", str(count)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert listeners.stdin is not None
    assert listeners.stdout is not None
    ports = json.loads(await listeners.stdout.readline())
    replicas = [Replica(f"slot-{i}", "127.0.0.1", 1, port) for i, port in enumerate(ports)]
    poller = LoadPoller()
    await poller.observe(replicas)
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    for _ in range(LOOKS):
        seen = await poller.observe(replicas)
    cpu_ms = (time.process_time() - cpu_s) * 1000 / LOOKS
    wall_ms = (time.perf_counter() - wall_s) * 1000 / LOOKS
    answered = sum(each.load is not None for each in seen.values())
    print(f"{count} replicas, {answered} answered: {cpu_ms:.1f} ms CPU, {wall_ms:.1f} ms a look")
    poller.close()
    listeners.stdin.close()
    await listeners.wait()


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(listen(int(sys.argv[1])))
    else:
        for replicas_count in (2, 20, 200):
            asyncio.run(measure(replicas_count))
