"""The record of one request: facts only.

The rule that must not break: no field can hold code, a path, a name or anything else that was
received in or generated for the request. Texts are enumerations, our own identifiers, keyed hashes,
or names that an administrator gave (tenant, pool, recipe). `tests/unit/orchestrator` holds the
list of fields.
"""

from __future__ import annotations

import msgspec

from orchestrator.affinity import LossReason, Placement
from orchestrator.outcome import Outcome
from orchestrator.prompt.history import SnippetChange
from orchestrator.request import Mode, Tier, Trigger


class Usage(msgspec.Struct, frozen=True):
    """Tokens. `cached_tokens` is None where the engine did not get to report it."""

    prompt_tokens: int = 0
    cached_tokens: int | None = 0
    completion_tokens: int = 0


class StageTimes(msgspec.Struct, frozen=True):
    """Milliseconds; queue, prefill and decode are the engine's own, the rest was measured here."""

    total: float = 0.0
    admission: float = 0.0
    prompt: float = 0.0
    queue: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    postprocess: float = 0.0


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one request.

    `placement` is None where no replica is known to have served it.
    """

    completion_id: str
    tenant: str
    user_key: str
    session_key: str
    tier: Tier
    trigger: Trigger
    language: str
    outcome: Outcome
    reason: str | None
    error_type: str | None
    mode: Mode | None
    pool: str
    replica: str
    placement: Placement | None
    affinity_loss: LossReason | None
    model: str
    recipe: str
    arm: str
    policy_version: int
    deadline_limit_ms: int
    prompt_stable_tokens: int
    prompt_shared_with_previous: int | None
    snippet_change: SnippetChange | None
    prompt_sections_dropped: int
    generation_ms: float
    suggestion_chars: int
    usage: Usage
    times: StageTimes
