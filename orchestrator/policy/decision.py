"""One request against its tenant's policy, before anything is spent on it. Pure."""

from __future__ import annotations

import msgspec

from orchestrator.outcome import Outcome
from orchestrator.policy.document import PolicyDocument
from orchestrator.request import CompletionRequest, RequestedMode


class Allow(msgspec.Struct, frozen=True):
    """The request may go on, in `mode`: what it asked for, or the less that it may have."""

    policy: PolicyDocument
    mode: RequestedMode


class Deny(msgspec.Struct, frozen=True):
    """The request ends here with an empty suggestion."""

    policy: PolicyDocument
    outcome: Outcome
    reason: str | None = None


PolicyDecision = Allow | Deny


def decide(request: CompletionRequest, policy: PolicyDocument) -> PolicyDecision:
    """What `policy` says to `request`. A tenant without blocks is served lines instead."""
    mode = request.mode if policy.block_completions else RequestedMode.LINE
    return Allow(policy=policy, mode=mode)
