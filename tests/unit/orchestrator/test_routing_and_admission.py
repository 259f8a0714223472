import pytest

from orchestrator.admission import Admit, LoadSnapshot, Permits, Refuse, decide
from orchestrator.deadline import DeadlineLimits
from orchestrator.outcome import RefusalReason
from orchestrator.request import (
    Deadline,
    Document,
    Mode,
    Principal,
    RequestedMode,
    Role,
    Tier,
)
from orchestrator.routing import ModelPool, NoRoute, Route, shape_of
from orchestrator.routing import decide as route
from tests.support.orchestrator import request

DEADLINES = DeadlineLimits()
POOLS = {name: ModelPool(name, "sha256:0", unevaluated=False) for name in ("fast", "large")}
LOCAL = {name: ModelPool(name, "sha256:0", unevaluated=True) for name in ("fast", "large")}
IDLE = LoadSnapshot(worker_in_flight=0, worker_limit=2, pool_in_flight=0, pool_limit=1)
SOON = Deadline(at_ms=100.0, limit_ms=100)


@pytest.mark.parametrize(
    ("prefix", "suffix", "mode"),
    [
        ("def f(a):\n    ", "\n", Mode.BLOCK),
        ("if (a) {\n", "\n}\n", Mode.BLOCK),
        ("x = [\n    ", "\n]\n", Mode.BLOCK),
        ("def f(a):\n    ", "pass\n", Mode.LINE),
        ("def f(a):\n    return ", "\n", Mode.LINE),
        ("x = 1\n", "\n", Mode.LINE),
        ("def f(a):", "\n", Mode.LINE),
        ("", "", Mode.LINE),
    ],
)
def test_auto_is_a_block_only_on_an_empty_line_that_opens_one(
    prefix: str, suffix: str, mode: Mode
) -> None:
    assert shape_of(RequestedMode.AUTO, Document(prefix, suffix)) is mode


def test_a_named_mode_is_taken_as_it_is() -> None:
    assert shape_of(RequestedMode.BLOCK, Document("x = ", "\n")) is Mode.BLOCK


def test_lines_go_to_the_fast_pool_and_blocks_to_the_large_one() -> None:
    chosen = [
        route(request(), mode, POOLS, "development", DEADLINES)
        for mode in (RequestedMode.LINE, RequestedMode.BLOCK)
    ]
    assert all(isinstance(each, Route) for each in chosen)
    assert [each.pool.name for each in chosen] == ["fast", "large"]
    assert [each.max_tokens for each in chosen] == [64, 256]


@pytest.mark.parametrize(("wish", "got"), [(None, 64), (10, 10), (4096, 64)])
def test_a_client_may_ask_for_fewer_tokens_and_never_for_more(wish: int | None, got: int) -> None:
    chosen = route(
        request(client_max_tokens=wish), RequestedMode.LINE, POOLS, "development", DEADLINES
    )
    assert isinstance(chosen, Route)
    assert chosen.max_tokens == got


def test_an_unevaluated_engine_serves_the_development_tenant_only() -> None:
    stranger = Principal("acme", "ada", Tier.ENTERPRISE, Role.USER)
    refused = route(
        request(principal=stranger), RequestedMode.LINE, LOCAL, "development", DEADLINES
    )
    assert refused == NoRoute(Mode.LINE, RefusalReason.NO_CAPACITY)
    assert isinstance(route(request(), RequestedMode.LINE, LOCAL, "development", DEADLINES), Route)


def test_a_pool_without_an_engine_is_no_capacity() -> None:
    decision = route(request(), RequestedMode.LINE, {}, "development", DEADLINES)
    assert decision == NoRoute(Mode.LINE, RefusalReason.NO_CAPACITY)


def test_what_can_land_and_finds_room_is_admitted() -> None:
    assert isinstance(decide(SOON, IDLE, now_ms=99.9), Admit)


@pytest.mark.parametrize(
    ("load", "now_ms", "reason"),
    [
        (IDLE, 100.0, RefusalReason.DEADLINE),
        (LoadSnapshot(2, 2, 0, 1), 0.0, RefusalReason.NO_CAPACITY),
        (LoadSnapshot(1, 2, 1, 1), 0.0, RefusalReason.NO_CAPACITY),
    ],
)
def test_late_requests_and_full_workers_or_pools_are_refused(
    load: LoadSnapshot, now_ms: float, reason: RefusalReason
) -> None:
    assert decide(SOON, load, now_ms) == Refuse(reason)


def test_a_permit_lives_as_long_as_its_block_also_when_it_raises() -> None:
    permits = Permits(worker_limit=2, pool_limit=1)

    def serve() -> None:
        with permits.enter("fast", SOON, 0.0) as outer:
            assert isinstance(outer, Admit)
            with permits.enter("fast", SOON, 0.0) as refused:
                assert refused == Refuse(RefusalReason.NO_CAPACITY)
            with permits.enter("large", SOON, 0.0) as also:
                assert isinstance(also, Admit)
            assert permits.load("fast").worker_in_flight == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        serve()
    assert permits.load("fast") == LoadSnapshot(0, 2, 0, 1)
