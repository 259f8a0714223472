"""Who asks: the edge's identity headers as a `Principal`.

Envoy verifies the token, strips these headers from whatever comes in and sets them itself, so
they can be trusted here and only here.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.request import Client, Principal, Role, Tier

_USER, _TENANT = b"x-warmline-user", b"x-warmline-tenant"
_TIER, _ROLE = b"x-warmline-tier", b"x-warmline-role"
_CLIENT_CHARS_MAX = 128
_DEVELOPMENT_USER = "developer"

Headers = Mapping[bytes, bytes]
"""Lower-case names to values, as ASGI gives them."""


class IdentityError(ValueError):
    """The identity headers contradict themselves: answered with 401."""


def principal_of(headers: Headers, development_tenant: str) -> Principal:
    """The verified principal, or the development one where the edge named nobody.

    Raises `IdentityError` when a user comes without a tenant (or the reverse), or with a tier or
    role that does not exist: a half-known principal must not get the development tenant's rights.
    """
    user, tenant = _text(headers, _USER), _text(headers, _TENANT)
    if not user and not tenant:
        return Principal(
            tenant=development_tenant,
            user=_DEVELOPMENT_USER,
            tier=Tier.ENTERPRISE,
            role=Role.USER,
        )
    if not user or not tenant:
        missing = "x-warmline-tenant" if user else "x-warmline-user"
        raise IdentityError(f"identity header {missing} is missing beside its sibling")
    return Principal(tenant=tenant, user=user, tier=_tier(headers), role=_role(headers))


def client_of(headers: Headers) -> Client:
    """The plugin named by `x-client: <name>/<version>`, empty where absent or overlong."""
    value = _text(headers, b"x-client")
    if len(value) > _CLIENT_CHARS_MAX:
        return Client()
    name, _, version = value.partition("/")
    return Client(name=name, version=version)


def _tier(headers: Headers) -> Tier:
    value = _text(headers, _TIER)
    try:
        return Tier(value) if value else Tier.FREE
    except ValueError as error:
        raise IdentityError(f"x-warmline-tier must be one of {[*Tier]}") from error


def _role(headers: Headers) -> Role:
    value = _text(headers, _ROLE)
    try:
        return Role(value) if value else Role.USER
    except ValueError as error:
        raise IdentityError(f"x-warmline-role must be one of {[*Role]}") from error


def _text(headers: Headers, name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1").strip()
