"""Pairs of cache salts that must share nothing, from the request plane's own hashing.

Each pair differs in one thing alone, under the scope that has only that to tell the two apart:
tenants under `tenant`, users of one tenant under `user`, documents of one user under `session`.
"""

from dataclasses import dataclass

from orchestrator.request import (
    Client,
    CompletionRequest,
    Document,
    EditingSession,
    Principal,
    Role,
    Tier,
)
from orchestrator.session import CacheScope, SessionHasher

EPOCH = 1


@dataclass(frozen=True)
class Identity:
    """Who asks, and in which document."""

    tenant: str = "tenant-a"
    user: str = "user-a"
    document: str = "document-a"


OTHERS: dict[str, tuple[CacheScope, Identity]] = {
    "tenants": (CacheScope.TENANT, Identity(tenant="tenant-b")),
    "users": (CacheScope.USER, Identity(user="user-b")),
    "sessions": (CacheScope.SESSION, Identity(document="document-b")),
}
"""What two identities differ in: the scope, and the one that differs from `Identity()`."""


def salt(hasher: SessionHasher, identity: Identity, scope: CacheScope) -> bytes:
    """The salt that a worker would send for this identity."""
    principal = Principal(identity.tenant, identity.user, Tier.BUSINESS, Role.USER)
    request = CompletionRequest(
        completion_id="",
        request_id="",
        principal=principal,
        client=Client(),
        session=EditingSession("installation", identity.document),
        document=Document("", ""),
        received_ms=0.0,
        arrived_ms=0.0,
    )
    partition = hasher.cache_partition(principal, scope, hasher.session_key(request))
    return hasher.cache_salt(partition, EPOCH)


def salts_of(hasher: SessionHasher, what: str) -> tuple[bytes, bytes]:
    """The two salts of identities that differ in `what`, a key of `OTHERS`."""
    scope, other = OTHERS[what]
    return salt(hasher, Identity(), scope), salt(hasher, other, scope)
