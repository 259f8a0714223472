from pathlib import Path

import pytest
from hypothesis import assume, given
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


NAME = st.text(alphabet=st.characters(), min_size=1, max_size=3)
SCOPES = st.sampled_from(CacheScope)


def salt(tenant: str, user: str, document: str, scope: CacheScope, epoch: int = 7) -> bytes:
    """The salt as the pipeline derives it."""
    who = principal(tenant, user)
    key = HASHER.session_key(request(principal=who, session=EditingSession("", document)))
    return HASHER.cache_salt(HASHER.cache_partition(who, scope, key), epoch)


USER_AND_DOCUMENT = st.tuples(NAME, NAME)


@given(NAME, NAME, USER_AND_DOCUMENT, USER_AND_DOCUMENT, st.tuples(SCOPES, SCOPES))
def test_two_tenants_never_share_a_salt_whatever_the_scopes(
    a: str,
    b: str,
    one: tuple[str, str],
    other: tuple[str, str],
    scopes: tuple[CacheScope, CacheScope],
) -> None:
    assume(a != b)
    assert salt(a, *one, scopes[0]) != salt(b, *other, scopes[1])


@given(NAME, USER_AND_DOCUMENT, USER_AND_DOCUMENT, SCOPES)
def test_a_scope_shares_exactly_what_it_says(
    tenant: str, one: tuple[str, str], other: tuple[str, str], scope: CacheScope
) -> None:
    shares = {
        CacheScope.SESSION: one == other,
        CacheScope.USER: one[0] == other[0],
        CacheScope.TENANT: True,
    }[scope]
    assert (salt(tenant, *one, scope) == salt(tenant, *other, scope)) == shares


@given(st.text("ab", max_size=4), st.text("ab", max_size=4), st.text("ab", max_size=4))
def test_moving_text_between_tenant_user_and_document_never_meets_the_same_salt(
    tenant: str, user: str, doc: str
) -> None:
    """Two letters and short names: every way to cut the same text differently comes up."""
    whole = tenant + user + doc
    here = (tenant, user, doc)
    for i in range(len(whole) + 1):
        for j in range(i, len(whole) + 1):
            there = (whole[:i], whole[i:j], whole[j:])
            for scope in (CacheScope.SESSION, CacheScope.USER):
                same = here == there or (scope is CacheScope.USER and here[:2] == there[:2])
                assert (salt(*here, scope) == salt(*there, scope)) == same


@given(NAME, NAME)
def test_scopes_never_meet_even_within_one_tenant(tenant: str, user: str) -> None:
    """A user whose name is a session's key, or empty, gets nobody else's partition."""
    salts = [salt(tenant, user, user, scope) for scope in CacheScope]
    assert len(set(salts)) == len(CacheScope)


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_an_epoch_is_part_of_the_salt(a: int, b: int) -> None:
    scope = CacheScope.SESSION
    assert (salt("t", "u", "d", scope, a) == salt("t", "u", "d", scope, b)) == (a == b)


def test_another_secret_changes_keys_partitions_and_salts() -> None:
    rotated = SessionHasher(SECRET)
    rotated.rotate(SECRET[::-1])
    assert rotated.session_key(request()) != HASHER.session_key(request())
    assert rotated.user_key(principal()) != HASHER.user_key(principal())
    partitions = [
        each.cache_partition(principal(), CacheScope.SESSION, "k") for each in (HASHER, rotated)
    ]
    assert partitions[0] != partitions[1]
    assert rotated.cache_salt(partitions[0], 1) != HASHER.cache_salt(partitions[0], 1)


def test_a_secret_that_is_too_short_to_rotate_to_changes_nothing() -> None:
    hasher = SessionHasher(SECRET)
    with pytest.raises(SessionSecretError):
        hasher.rotate(SECRET[:31])
    assert hasher.session_key(request()) == HASHER.session_key(request())


def test_key_and_salt_have_the_sizes_that_envoy_and_the_replica_expect() -> None:
    assert len(HASHER.session_key(request())) == 32
    assert 16 <= len(salt("t", "u", "d", CacheScope.USER)) <= 64


def test_a_short_secret_is_refused_with_both_lengths() -> None:
    with pytest.raises(SessionSecretError, match="31 bytes, at least 32"):
        SessionHasher(SECRET[:31])


def test_the_secrets_file_is_read_as_it_is_and_a_missing_one_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(SECRET)
    assert read_session_secret(tmp_path / "key") == SECRET
    with pytest.raises(SessionSecretError, match="absent"):
        read_session_secret(tmp_path / "absent")
