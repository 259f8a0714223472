from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.request import Client, EditingSession, Principal, Role, Tier
from orchestrator.session import CacheScope, SessionHasher, SessionSecretError, _framed
from orchestrator.session_secret import read_session_secret
from tests.support.orchestrator import SECRET, request

HASHER = SessionHasher(SECRET)
TEXT = st.text(alphabet=st.characters(), max_size=20)


def principal(tenant: str = "acme", user: str = "ada") -> Principal:
    return Principal(tenant, user, Tier.FREE, Role.USER)


@given(st.lists(TEXT, max_size=4), st.lists(TEXT, max_size=4))
def test_different_field_lists_never_frame_to_the_same_bytes(a: list[str], b: list[str]) -> None:
    assert (_framed(a) == _framed(b)) == (a == b)


def test_moving_a_character_between_fields_gives_another_session_key() -> None:
    one = request(session=EditingSession("ab", "c"))
    other = request(session=EditingSession("a", "bc"))
    assert HASHER.session_key(one) != HASHER.session_key(other)


@pytest.mark.parametrize(
    "changes",
    [
        {"principal": principal("other")},
        {"principal": principal(user="other")},
        {"session": EditingSession("other", "document")},
        {"session": EditingSession("installation", "other")},
    ],
)
def test_each_part_of_the_session_changes_the_key(changes: dict[str, object]) -> None:
    base = {"principal": principal()}
    assert HASHER.session_key(request(**base)) != HASHER.session_key(request(**base | changes))


def test_text_and_position_do_not_change_the_key() -> None:
    assert HASHER.session_key(request("a")) == HASHER.session_key(request("b", "c", version=3))


def test_without_ids_the_path_is_the_place_and_without_a_path_the_client() -> None:
    bare = EditingSession()
    by_path = [HASHER.session_key(request(session=bare, path=path)) for path in ("a.py", "b.py")]
    assert by_path[0] != by_path[1]
    by_client = [
        HASHER.session_key(request(session=bare, client=Client(name, "1"))) for name in ("a", "b")
    ]
    assert by_client[0] != by_client[1]


def test_an_id_cannot_pose_as_a_path() -> None:
    with_path = request(session=EditingSession(), path="x")
    with_id = request(session=EditingSession("x", ""))
    assert HASHER.session_key(with_path) != HASHER.session_key(with_id)


def test_salts_differ_by_tenant_in_every_scope() -> None:
    for scope in CacheScope:
        salts = {HASHER.cache_salt(principal(tenant), scope, "k") for tenant in ("a", "b")}
        assert len(salts) == 2


def test_wider_scopes_share_and_narrower_ones_do_not() -> None:
    def salts(scope: CacheScope) -> set[bytes]:
        return {
            HASHER.cache_salt(principal(user=user), scope, key)
            for user in ("ada", "bob")
            for key in ("k1", "k2")
        }

    assert [len(salts(scope)) for scope in CacheScope] == [2, 2, 1]


def test_another_secret_changes_keys_and_salts() -> None:
    rotated = SessionHasher(SECRET[::-1])
    assert rotated.session_key(request()) != HASHER.session_key(request())
    scope = CacheScope.SESSION
    assert rotated.cache_salt(principal(), scope, "k") != HASHER.cache_salt(principal(), scope, "k")


def test_key_and_salt_have_the_sizes_that_envoy_and_the_replica_expect() -> None:
    assert len(HASHER.session_key(request())) == 32
    assert 16 <= len(HASHER.cache_salt(principal(), CacheScope.USER, "")) <= 64


def test_a_short_secret_is_refused_with_both_lengths() -> None:
    with pytest.raises(SessionSecretError, match="31 bytes, at least 32"):
        SessionHasher(SECRET[:31])


def test_the_secrets_file_is_read_as_it_is_and_a_missing_one_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(SECRET)
    assert read_session_secret(tmp_path / "key") == SECRET
    with pytest.raises(SessionSecretError, match="absent"):
        read_session_secret(tmp_path / "absent")
