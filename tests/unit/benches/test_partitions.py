import pytest

from orchestrator.session import CacheScope, SessionHasher
from scripts.benches.partitions import OTHERS, Identity, salt, salts_of

HASHER = SessionHasher(bytes(range(32)))


@pytest.mark.parametrize("what", OTHERS)
def test_a_pair_has_two_salts_and_differs_in_one_thing(what: str) -> None:
    ours, theirs = salts_of(HASHER, what)
    assert ours != theirs
    _, other = OTHERS[what]
    assert (
        sum(a != b for a, b in zip(vars(Identity()).items(), vars(other).items(), strict=True)) == 1
    )


def test_each_scope_shares_within_itself() -> None:
    elsewhere = Identity(user="user-b", document="document-b")
    assert salt(HASHER, Identity(), CacheScope.TENANT) == salt(HASHER, elsewhere, CacheScope.TENANT)
    other_document = Identity(document="document-b")
    assert salt(HASHER, Identity(), CacheScope.USER) == salt(
        HASHER, other_document, CacheScope.USER
    )
