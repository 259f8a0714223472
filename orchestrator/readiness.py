"""What is missing before this worker can serve: asked on demand, never in a request's way."""

from __future__ import annotations

import asyncio

import httpx

from orchestrator.pools import Pools
from orchestrator.settings import Address, ReplicaSettings

_PROBE_SECONDS_MAX = 1.0


class Readiness:
    """Probes engines, the inference listener and the replicas.

    One HTTP client for all probes: building one takes longer than a whole request.
    """

    def __init__(
        self,
        pools: Pools,
        inference: Address,
        replicas: tuple[ReplicaSettings, ...],
        http: httpx.AsyncClient,
    ) -> None:
        self._pools = pools
        self._inference = inference
        self._replicas = replicas
        self._http = http

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
        states = await asyncio.gather(*(_state(self._http, each) for each in self._replicas))
        if any(state is None for state in states):
            return []
        return [f"no replica is ready: {'; '.join(state for state in states if state)}"]


async def _state(http: httpx.AsyncClient, replica: ReplicaSettings) -> str | None:
    """None for a ready replica, else what is wrong with it."""
    try:
        url = f"{replica.status_url.rstrip('/')}/healthz"
        answer = await http.get(url, timeout=_PROBE_SECONDS_MAX)
    except httpx.HTTPError as error:
        return f"{replica.slot}: {type(error).__name__}"
    return None if answer.status_code == 200 else f"{replica.slot}: status {answer.status_code}"
