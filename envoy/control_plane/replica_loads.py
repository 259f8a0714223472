"""Asks the replicas for their health and load, off the request path. Decides nothing."""

import asyncio
import time
from collections.abc import Iterable
from typing import Final

import httpx
import msgspec

from .fleet_state import Observation, ReplicaLoad
from .topology import Address, Replica

TIMEOUT_S: Final = 0.8
BYTES_MAX: Final = 64 * 1024
_TOGETHER_MAX: Final = 64


class LoadPoller:
    """Keeps one connection to each replica; `close` it at the end."""

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        # Replicas are asked directly, whatever proxy the environment names.
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, limits=limits, trust_env=False)
        self._together = asyncio.Semaphore(_TOGETHER_MAX)

    async def observe(self, replicas: Iterable[Replica]) -> dict[str, Observation]:
        """One look at every replica; one that does not answer is not ready, its load unknown."""
        replicas = list(replicas)
        seen = await asyncio.gather(*(self._observe(replica) for replica in replicas))
        return {replica.slot: each for replica, each in zip(replicas, seen, strict=True)}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _observe(self, replica: Replica) -> Observation:
        base = f"http://{Address(replica.address, replica.status_port)}"
        async with self._together:
            asked_at_s = time.time()
            try:
                health = await self._client.get(f"{base}/healthz")
                load = await self._client.get(f"{base}/load")
            except httpx.HTTPError:
                return Observation(asked_at_s, is_ready=False, load=None)
        return Observation(asked_at_s, health.status_code == httpx.codes.OK, _load_of(load))


def _load_of(answer: httpx.Response) -> ReplicaLoad | None:
    if answer.status_code != httpx.codes.OK or len(answer.content) > BYTES_MAX:
        return None
    try:
        return msgspec.json.decode(answer.content, type=ReplicaLoad)
    except msgspec.MsgspecError:
        return None
