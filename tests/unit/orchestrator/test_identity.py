import pytest

from orchestrator.identity import IdentityError, client_of, principal_of
from orchestrator.request import Client, Principal, Role, Tier


def test_nobody_named_by_the_edge_is_the_development_principal() -> None:
    principal = principal_of({}, "development")
    assert (principal.tenant, principal.user) == ("development", "developer")


def test_a_whole_identity_is_taken_over() -> None:
    headers = {
        b"x-warmline-user": b"ada",
        b"x-warmline-tenant": b"acme",
        b"x-warmline-tier": b"business",
        b"x-warmline-role": b"tenant_admin",
    }
    assert principal_of(headers, "development") == Principal(
        "acme", "ada", Tier.BUSINESS, Role.TENANT_ADMIN
    )


@pytest.mark.parametrize(
    "headers",
    [
        {b"x-warmline-user": b"ada"},
        {b"x-warmline-tenant": b"acme"},
        {b"x-warmline-user": b"a", b"x-warmline-tenant": b"t", b"x-warmline-tier": b"gold"},
        {b"x-warmline-user": b"a", b"x-warmline-tenant": b"t", b"x-warmline-role": b"root"},
    ],
)
def test_half_an_identity_never_becomes_the_development_principal(
    headers: dict[bytes, bytes],
) -> None:
    with pytest.raises(IdentityError):
        principal_of(headers, "development")


@pytest.mark.parametrize(
    ("value", "client"),
    [
        (b"vscode/1.2.3", Client("vscode", "1.2.3")),
        (b"vim", Client("vim", "")),
        (b"", Client()),
        (b"x" * 129, Client()),
    ],
)
def test_the_client_header_names_a_plugin_and_its_version(value: bytes, client: Client) -> None:
    assert client_of({b"x-client": value}) == client
