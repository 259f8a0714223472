"""Measures how fast a drain by the API takes new streams away, and what it costs under traffic.

    PYTHONPATH=.:envoy python -m tests.component.envoy.measure_drain

Sessions type without a pause while one of two slots is drained and undrained again and again.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from tests.component.envoy.harness import envoy_stack, until
from tests.component.envoy.traffic import typing

SESSIONS = [f"session-{i}" for i in range(40)]
DRAINS = 20


async def measure() -> None:
    """Print, over all drains: time to Envoy's acceptance, time to drained, and errors."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            envoy_stack(Path(folder), replicas=2, workers=1) as stack,
            typing(stack, SESSIONS) as traffic,
        ):
            accepted_ms, drained_s = [], []
            for _ in range(DRAINS):
                began_s = time.perf_counter()
                await stack.change("slot-0", "drain", force=True)
                await stack.wait_until_accepted()
                accepted_ms.append((time.perf_counter() - began_s) * 1000)
                seen = len(traffic.answers)

                async def is_drained() -> bool:
                    return bool((await stack.slot("slot-0"))["state"] == "drained")

                await until(is_drained, "the drain ends")
                drained_s.append((await stack.slot("slot-0"))["drain"]["took_s"])
                late = [a for a in traffic.answers[seen + 8 :] if a.slot == "slot-0"]
                assert not late, "no stream went there any more"
                await stack.change("slot-0", "undrain")
                await stack.wait_until_accepted()
    accepted_ms.sort()
    print(
        f"{DRAINS} drains, {len(traffic.answers)} streams, {len(traffic.errors)} errors; accepted "
        f"by Envoy after {accepted_ms[0]:.0f} to {accepted_ms[-1]:.0f} ms, median "
        f"{accepted_ms[DRAINS // 2]:.0f} ms; drained after {min(drained_s)} to {max(drained_s)} s"
    )


if __name__ == "__main__":
    asyncio.run(measure())
