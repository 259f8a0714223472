"""Pool and shape of one request, before anything is spent on it. Pure.

An engine that was not evaluated (`origin: local`) serves the development tenant only.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from orchestrator.deadline import DeadlineLimits, deadline_of
from orchestrator.outcome import RefusalReason
from orchestrator.request import CompletionRequest, Deadline, Mode, RequestedMode
from orchestrator.routing.shape import shape_of

POOL_OF_MODE = {Mode.LINE: "fast", Mode.BLOCK: "large"}
MAX_TOKENS = {Mode.LINE: 64, Mode.BLOCK: 256}
"""Caps (design: "Deadlines"); a client may ask for less, never for more."""


class ModelPool(msgspec.Struct, frozen=True):
    """A pool as routing sees it: its Envoy name and the engine behind it."""

    name: str
    engine_digest: str
    unevaluated: bool

    @property
    def model(self) -> str:
        """The name that answers carry."""
        return f"fim-{self.name}@{self.engine_digest}"


class Route(msgspec.Struct, frozen=True):
    """Where the request goes, in which shape, and what it may take."""

    pool: ModelPool
    mode: Mode
    deadline: Deadline
    max_tokens: int
    arm: str


class NoRoute(msgspec.Struct, frozen=True):
    """No pool may serve the request."""

    mode: Mode
    reason: RefusalReason


RoutingDecision = Route | NoRoute

CONTROL_ARM = "control"
"""The arm of a request that no experiment covers."""


def decide(
    request: CompletionRequest,
    allowed: RequestedMode,
    pools: Mapping[str, ModelPool],
    development_tenant: str,
    deadlines: DeadlineLimits,
) -> RoutingDecision:
    """The pool for `request`; `pools` holds those with a loaded engine, by name."""
    mode = shape_of(allowed, request.document)
    pool = pools.get(POOL_OF_MODE[mode])
    if pool is None or (pool.unevaluated and request.principal.tenant != development_tenant):
        return NoRoute(mode=mode, reason=RefusalReason.NO_CAPACITY)
    wished = request.client_max_tokens
    max_tokens = MAX_TOKENS[mode] if wished is None else min(wished, MAX_TOKENS[mode])
    deadline = deadline_of(request, mode, deadlines)
    return Route(pool, mode, deadline, max_tokens, CONTROL_ARM)
