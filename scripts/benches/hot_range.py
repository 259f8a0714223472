"""A stack under a hot key range: one slot's keys get twice the average load, factor after factor.

Arrivals are open-loop: a request leaves when its moment comes, however many are under way, so that
a slow answer does not thin out what follows it.
"""

import asyncio
import json
import random
import time
import urllib.request
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from orchestrator.generation.inference import InferenceError, InferenceRequest, StopRule
from orchestrator.generation.triton import TritonClient
from scripts.benches.bounded_load import with_hot
from scripts.benches.paths import DEADLINE_MS
from scripts.benches.processes import is_quiet, until
from scripts.stack.api import RunningStack

HOT_TIMES = 2.0
NO_BOUND = 100.0
"""The widest factor that a topology takes: no slot of a small stack reaches it."""
FACTORS = (NO_BOUND, 2.0, 1.5, 1.25)
STEP_US, MEAN_TOKENS = 50_000, 20
MEAN_STREAM_S = STEP_US * MEAN_TOKENS / 1e6
WARM_UP_S = 4.0
KEYS = 240
PROMPT_TOKENS = 24
HOMES_AT_ONCE = 16
PUBLISH_LIMIT_S, QUIET_LIMIT_S = 15.0, 30.0
POOL = "fast"
REPLICA_VARIABLES = {
    "WARMLINE_FAKE_STEP_US": str(STEP_US),
    "WARMLINE_LIVE_SEQUENCES_MAX": "256",
    "WARMLINE_WAITING_SEQUENCES_MAX": "4096",
    "WARMLINE_PREFILL_TOKENS_PER_STEP": "8192",
}
"""A paced fake engine that takes every stream at once, so that live streams are what is bounded."""


@dataclass
class Stream:
    """One request: its home, who served it, and when (monotonic s)."""

    home: str
    began_s: float
    replica: str = ""
    ended_s: float = 0.0


@dataclass
class Phase:
    """What was sent under one factor, and how the control plane published it."""

    published: float
    counted_from_s: float
    counted_to_s: float
    streams: list[Stream] = field(default_factory=list)
    failed: int = 0

    @property
    def counted(self) -> list[Stream]:
        """Answered requests that arrived after the warm-up."""
        return [each for each in self.streams if each.began_s >= self.counted_from_s]

    @property
    def spilled_share(self) -> float:
        """0 to 1."""
        counted = self.counted
        return sum(each.replica != each.home for each in counted) / len(counted)

    def share_of(self, slot: str) -> float:
        """Share of the requests whose home is `slot`, 0 to 1."""
        counted = self.counted
        return sum(each.home == slot for each in counted) / len(counted)

    def mean_live(self, slot: str) -> float:
        """Mean streams of a slot between warm-up and the last arrival."""
        start, end = self.counted_from_s, self.counted_to_s
        overlaps = (
            max(0.0, min(each.ended_s, end) - max(each.began_s, start))
            for each in self.streams
            if each.replica == slot
        )
        return sum(overlaps) / (end - start)


class Sender:
    """Streams through Envoy, each with a length of its own."""

    def __init__(self, address: str) -> None:
        self._client = TritonClient(address)

    async def send(self, key: str, home: str, tokens: int) -> Stream:
        """One stream; raises `InferenceError`."""
        stream = Stream(home, time.monotonic())
        request = InferenceRequest(
            pool=POOL,
            session_key=key,
            token_ids=array("i", range(100, 100 + PROMPT_TOKENS)),
            cache_salt=key.encode(),
            max_tokens=tokens,
            stop_rule=StopRule.NONE,
            streaming=False,
            remaining_ms=DEADLINE_MS,
        )
        async with self._client.open(request) as answer:
            async for _ in answer:
                pass
            stream.replica, stream.ended_s = answer.replica, time.monotonic()
        return stream

    async def close(self) -> None:
        """Closes the channel."""
        await self._client.close()


def set_factor(stack: RunningStack, factor: float) -> None:
    """Writes the factor into the topology document, which the control plane follows."""
    path: Path = stack.folder.topology
    document = yaml.safe_load(path.read_text())
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump(document | {"hash_balance_factor": factor}, sort_keys=False))
    new.replace(path)


def control_plane(stack: RunningStack) -> dict[str, Any]:
    """The control plane's status."""
    url = f"{stack.control_plane_status_url}/status"
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - a loopback address of our own
        status: dict[str, Any] = json.load(answer)
        return status


def published_factor(status: dict[str, Any]) -> float:
    """The pool's factor, as the control plane says."""
    factors = {pool["pool"]: pool["hash_balance_factor"] for pool in status["pools"]}
    return float(factors[POOL])


def is_in_force(status: dict[str, Any], factor: float) -> bool:
    """Whether Envoy has accepted what has this factor."""
    version = status["published_version"]
    accepted = (
        each["accepted_version"] == version
        for node in status["nodes"]
        for each in node["types"].values()
    )
    return published_factor(status) == factor and all(accepted)


async def publish(stack: RunningStack, factor: float) -> None:
    """Until Envoy uses the factor and no stream is under way; raises RuntimeError at the limit."""
    set_factor(stack, factor)
    if not await until(lambda: is_in_force(control_plane(stack), factor), PUBLISH_LIMIT_S):
        raise RuntimeError(f"factor {factor} was not in force after {PUBLISH_LIMIT_S:.0f} s")
    if not await until(lambda: is_quiet(stack), QUIET_LIMIT_S):
        raise RuntimeError(f"streams were under way after {QUIET_LIMIT_S:.0f} s")


async def homes_of(sender: Sender, keys: list[str]) -> dict[str, list[str]]:
    """Keys by the slot that serves them while nothing is bounded."""
    places = asyncio.Semaphore(HOMES_AT_ONCE)

    async def one(key: str) -> Stream:
        async with places:
            return await sender.send(key, "", 1)

    streams = await asyncio.gather(*map(one, keys))
    homes: dict[str, list[str]] = {}
    for key, stream in zip(keys, streams, strict=True):
        homes.setdefault(stream.replica, []).append(key)
    return homes


async def offer(
    sender: Sender,
    homes: dict[str, list[str]],
    hot: str,
    phase: Phase,
    *,
    in_flight: float,
    rng: random.Random,
) -> None:
    """Sends at the moments of a Poisson process, each to a key of a slot drawn by its share."""
    slots = [hot, *sorted(homes.keys() - {hot})]
    shares = with_hot(len(slots), HOT_TIMES)
    rate = in_flight * len(slots) / MEAN_STREAM_S
    at_s = time.monotonic()

    async def one(home: str, tokens: int) -> None:
        try:
            phase.streams.append(await sender.send(rng.choice(homes[home]), home, tokens))
        except InferenceError:
            phase.failed += 1

    async with asyncio.TaskGroup() as group:
        while (at_s := at_s + rng.expovariate(rate)) < phase.counted_to_s:
            await asyncio.sleep(at_s - time.monotonic())
            (home,) = rng.choices(slots, shares)
            tokens = min(10 * MEAN_TOKENS, 1 + int(rng.expovariate(1 / (MEAN_TOKENS - 0.5))))
            group.create_task(one(home, tokens))


async def measure(
    stack: RunningStack, *, in_flight: float, seconds: float, seed: int
) -> tuple[str, list[Phase]]:
    """The hot slot, and a phase for each factor."""
    sender = Sender(stack.inference_address)
    rng = random.Random(seed)
    phases = []
    try:
        await publish(stack, NO_BOUND)
        homes = await homes_of(sender, [rng.randbytes(16).hex() for _ in range(KEYS)])
        hot = max(homes, key=lambda slot: len(homes[slot]))
        for factor in FACTORS:
            await publish(stack, factor)
            start_s = time.monotonic() + WARM_UP_S
            published = published_factor(control_plane(stack))
            phase = Phase(published, start_s, start_s + seconds)
            await offer(sender, homes, hot, phase, in_flight=in_flight, rng=random.Random(seed))
            phases.append(phase)
    finally:
        await sender.close()
    return hot, phases
