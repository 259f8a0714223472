"""Session key, cache partition and salt: keyed hashes that say nothing about what went in.

The session key places a request and scopes the cache; the partition says who shares warm prefixes,
and the salt is the partition at one epoch. All are BLAKE2b keyed with the installation's secret and
separated by `person` (RFC 7693, section 2.5 and its parameter block), so that none can be computed
from outside or taken for another. Fields are length-prefixed: ("ab", "c") and ("a", "bc") are
different inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from hashlib import blake2b

from orchestrator.request import Client, CompletionRequest, EditingSession, Principal

SECRET_BYTES_MIN = 32
SALT_BYTES = 32
_SESSION_KEY_BYTES = 16


class CacheScope(StrEnum):
    """Who shares warm prefixes. Never wider than a tenant."""

    SESSION = "session"
    USER = "user"
    TENANT = "tenant"


class SessionSecretError(ValueError):
    """The secret is missing, unreadable or too short."""


class SessionHasher:
    """Derives keys and salts from one secret; a new secret empties the cache for everyone."""

    def __init__(self, secret: bytes) -> None:
        self._key = b""
        self.rotate(secret)

    def rotate(self, secret: bytes) -> None:
        """Takes another secret from here on; raises `SessionSecretError` and keeps the old one."""
        if len(secret) < SECRET_BYTES_MIN:
            raise SessionSecretError(
                f"session secret: {len(secret)} bytes, at least {SECRET_BYTES_MIN} needed; "
                "write random bytes into the file named by session_secret_file"
            )
        # BLAKE2b takes a key of at most 64 bytes; a longer secret is folded, not cut.
        self._key = blake2b(secret, person=b"warmline-secret").digest()

    def session_key(self, request: CompletionRequest) -> str:
        """32 hexadecimal digits: tenant, user, installation and document."""
        principal = request.principal
        place = _place_of(request.session, request.document.path, request.client)
        digest = self._hash(
            b"warmline-session", _SESSION_KEY_BYTES, (principal.tenant, principal.user, *place)
        )
        return digest.hex()

    def cache_partition(self, principal: Principal, scope: CacheScope, session_key: str) -> bytes:
        """32 bytes; equal only for requests that may share a prefix."""
        within = {
            CacheScope.SESSION: session_key,
            CacheScope.USER: principal.user,
            CacheScope.TENANT: "",
        }[scope]
        return self._hash(b"warmline-cache", 32, (principal.tenant, scope, within))

    def cache_salt(self, partition: bytes, epoch: int) -> bytes:
        """`SALT_BYTES` bytes: what the engine tells prefixes apart by, in one epoch."""
        content = epoch.to_bytes(8, "big") + partition
        person = b"warmline-salt"
        return blake2b(content, digest_size=SALT_BYTES, key=self._key, person=person).digest()

    def user_key(self, principal: Principal) -> str:
        """32 hexadecimal digits that stand for the user in records."""
        return self._hash(b"warmline-user", 16, (principal.tenant, principal.user)).hex()

    def _hash(self, person: bytes, digest_bytes: int, fields: Iterable[str]) -> bytes:
        return blake2b(
            _framed(fields), digest_size=digest_bytes, key=self._key, person=person
        ).digest()


def _place_of(session: EditingSession, path: str, client: Client) -> tuple[str, str, str]:
    """Ids where the wire has them, else the path, else the client; the first field says which."""
    if session.installation_id or session.document_id:
        return ("ids", session.installation_id, session.document_id)
    if path:
        return ("path", path, "")
    return ("client", client.name, "")


def _framed(fields: Iterable[str]) -> bytes:
    """Fields end to end, each after its length as 4 bytes."""
    encoded = [field.encode("utf-8", "surrogatepass") for field in fields]
    return b"".join(len(field).to_bytes(4, "big") + field for field in encoded)
