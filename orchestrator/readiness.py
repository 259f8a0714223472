"""What is missing before this worker can serve: asked on demand, never in a request's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from orchestrator.clock import Clock
from orchestrator.load.fleet import Fleet, Standing
from orchestrator.pools import Pools
from orchestrator.settings import Address

_PROBE_SECONDS_MAX = 1.0


class Readiness:
    """Looks at the engines, the newest snapshot of the replicas, and the inference listener."""

    def __init__(
        self, pools: Pools, inference: Address, fleet: Callable[[], Fleet], clock: Clock
    ) -> None:
        self._pools = pools
        self._inference = inference
        self._fleet = fleet
        self._clock = clock

    async def missing(self) -> list[str]:
        """One sentence for each thing that is missing; empty when the worker is ready."""
        return [*self._engines(), *await self._listener(), *self._any_replica()]

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

    def _any_replica(self) -> list[str]:
        """Nothing as soon as one replica is live; otherwise what is known of each of them."""
        slots = self._fleet().slots.values()
        now_ms = self._clock.now_ms()
        if not slots or any(slot.standing(now_ms) is Standing.LIVE for slot in slots):
            return []
        return [f"no replica is ready: {'; '.join(f'{s.name}: {s.trouble}' for s in slots)}"]
