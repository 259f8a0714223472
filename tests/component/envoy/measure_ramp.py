"""Measures what each step of a weight ramp moves, for the table in `control_plane.placement`.

    PYTHONPATH=.:envoy python -m tests.component.envoy.measure_ramp

One slot ramps beside 1 and beside 4 others; every session is placed once per weight.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.component.envoy.harness import EnvoyStack, envoy_stack

SESSIONS = [f"session-{i}" for i in range(1500)]
WEIGHTS = range(10, 101, 10)
TOGETHER = 16


async def place(stack: EnvoyStack) -> dict[str, str]:
    """The slot of every session, some at a time."""
    parts = await asyncio.gather(*(stack.place(SESSIONS[i::TOGETHER]) for i in range(TOGETHER)))
    return {session: slot for part in parts for session, slot in part.items()}


async def measure(others: int) -> None:
    """Print a line for each weight of the ramping slot, which comes last."""
    with tempfile.TemporaryDirectory() as folder:
        async with envoy_stack(Path(folder), replicas=others + 1, workers=1) as stack:
            entry = stack.document["replicas"][-1]
            entry["state"] = "draining"
            await stack.publish()
            before = await place(stack)
            entry["state"] = "serving"
            for weight in WEIGHTS:
                entry["weight"] = weight
                await stack.publish()
                now = await place(stack)
                moved = [s for s in SESSIONS if now[s] != before[s]]
                gained = sum(now[s] == entry["slot"] for s in moved)
                held = sum(slot == entry["slot"] for slot in now.values())
                sys.stdout.write(
                    f"beside {others}: weight {weight:3}  holds {held / len(now):6.2%}  "
                    f"gained {gained / len(now):6.2%}  other moves "
                    f"{(len(moved) - gained) / len(now):6.2%}\n"
                )
                before = now


if __name__ == "__main__":
    for number in (1, 4):
        asyncio.run(measure(number))
