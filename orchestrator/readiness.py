"""What is missing before this worker can serve: asked on demand, never in a request's way."""

from __future__ import annotations

import asyncio

import httpx

from orchestrator.pools import Pools
from orchestrator.settings import Address, ReplicaSettings

_PROBE_SECONDS_MAX = 1.0


class Readiness:
    """Probes engines, the inference listener and the replicas."""

    def __init__(
        self, pools: Pools, inference: Address, replicas: tuple[ReplicaSettings, ...]
    ) -> None:
        self._pools = pools
        self._inference = inference
        self._replicas = replicas

    async def missing(self) -> list[str]:
        """One sentence for each thing that is missing; empty when the worker is ready."""
        listener, replicas = await asyncio.gather(self._listener(), self._any_replica())
        return [*self._engines(), *listener, *replicas]

    def _engines(self) -> list[str]:
        return [f"pool {name}: {reason}" for name, reason in self._pools.missing.items()]

    async def _listener(self) -> list[str]:
        target = self._inference
        try:
            async with asyncio.timeout(_PROBE_SECONDS_MAX):
                _, writer = await asyncio.open_connection(target.address, target.port)
        except OSError as error:  # A timeout is one too.
            return [f"inference listener {target.target}: {type(error).__name__}"]
        writer.close()
        return []

    async def _any_replica(self) -> list[str]:
        """Nothing as soon as one replica is ready; otherwise what each of them said."""
        if not self._replicas:
            return []
        async with httpx.AsyncClient(timeout=_PROBE_SECONDS_MAX) as http:
            states = await asyncio.gather(*(_state(http, each) for each in self._replicas))
        if any(state is None for state in states):
            return []
        return [f"no replica is ready: {'; '.join(state for state in states if state)}"]


async def _state(http: httpx.AsyncClient, replica: ReplicaSettings) -> str | None:
    """None for a ready replica, else what is wrong with it."""
    try:
        answer = await http.get(f"{replica.status_url.rstrip('/')}/healthz")
    except httpx.HTTPError as error:
        return f"{replica.slot}: {type(error).__name__}"
    return None if answer.status_code == 200 else f"{replica.slot}: status {answer.status_code}"
