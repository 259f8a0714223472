"""The policy in force for a tenant.

Versioned: every answer carries the version that decided it.
"""

from __future__ import annotations

import msgspec

from orchestrator.session import CacheScope


class PolicyDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one tenant allows and asks for."""

    policy_version: int
    cache_scope: CacheScope = CacheScope.SESSION
    debounce_hint_ms: int = 75
    """How long a client should wait after a keystroke before it asks."""
    block_completions: bool = True


PERMISSIVE = PolicyDocument(policy_version=1)
"""Everything allowed: the policy of an installation that has written none."""
