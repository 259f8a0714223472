"""What Envoy adds to one call, through both listeners, against the same call without it.

    python -m tests.component.envoy.measure_latency [--calls 2000] [--concurrency 1]

One connection, one call at a time, direct and through Envoy in turn, so that whatever else the
machine does meets both alike. Prints a table and, as the last line, one JSON object.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.component.envoy.harness import HOST, EnvoyStack

WARM_UP_CALLS = 200
BODY = b'{"document":{"prefix":"' + b"x" * 4400 + b'"}}'

Call = Callable[[], Awaitable[None]]


async def compare(direct: Call, through: Call, calls: int) -> dict[str, float]:
    """Milliseconds per call, and the difference of the percentiles."""
    samples: dict[str, list[float]] = {"direct": [], "through": []}
    for index in range(WARM_UP_CALLS + calls):
        for name, call in (("direct", direct), ("through", through)):
            started = time.perf_counter()
            await call()
            if index >= WARM_UP_CALLS:
                samples[name].append((time.perf_counter() - started) * 1000)
    result = {}
    for percent in (50, 99):
        values = {n: sorted(s)[len(s) * percent // 100] for n, s in samples.items()}
        result |= {f"{name}_p{percent}_ms": round(value, 3) for name, value in values.items()}
        result[f"added_p{percent}_ms"] = round(values["through"] - values["direct"], 3)
    return result


def grpc_call(channel: grpc.aio.Channel) -> Call:
    """One `ModelStreamInfer` stream with one request and one response."""
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    request = service_pb2.ModelInferRequest(model_name="completion")
    request.raw_input_contents.append(b"\0" * 6000)  # 1,500 token ids
    metadata = (("x-warmline-pool", "fast"), ("x-warmline-session", "session-a"))

    async def call() -> None:
        async for _ in stub.ModelStreamInfer(iter([request]), metadata=metadata):
            pass

    return call


async def http_call(port: int) -> Call:
    """One POST on a kept connection."""
    reader, writer = await asyncio.open_connection(HOST, port)
    head = f"POST /v1/inline-completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(BODY)}\r\n\r\n"

    async def call() -> None:
        writer.write(head.encode() + BODY)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)

    return call


async def measure(calls: int, concurrency: int) -> dict[str, dict[str, float]]:
    """Both listeners; `concurrency` is the number of Envoy's worker threads."""
    with tempfile.TemporaryDirectory() as folder:
        stack = EnvoyStack(Path(folder), replicas=2, workers=1)
        stack.concurrency = concurrency
        async with stack:
            slot = (await stack.infer("session-a")).slot
            address = f"{HOST}:{stack.replicas[slot].port}"
            async with grpc.aio.insecure_channel(address) as direct:
                inference = await compare(grpc_call(direct), grpc_call(stack.channel), calls)
            edge = await compare(
                await http_call(stack.workers[0].port), await http_call(stack.port("edge")), calls
            )
    return {"inference": inference, "edge": edge}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=1, help="Envoy's worker threads")
    arguments = parser.parse_args()
    results = asyncio.run(measure(arguments.calls, arguments.concurrency))
    print(f"{'listener':<10} {'':>4} {'direct':>8} {'through':>8} {'added':>8}   (ms)")
    for listener, result in results.items():
        for p in ("p50", "p99"):
            row = [result[f"{what}_{p}_ms"] for what in ("direct", "through", "added")]
            print(f"{listener:<10} {p:>4} " + " ".join(f"{value:8.3f}" for value in row))
    print(json.dumps({"concurrency": arguments.concurrency, "calls": arguments.calls, **results}))


if __name__ == "__main__":
    main()
