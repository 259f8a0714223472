"""The inference listener: pool by header, replica by session, anything else refused."""

import grpc
import pytest
from tritonclient.grpc import service_pb2

from tests.component.envoy.harness import EnvoyStack

pytestmark = [pytest.mark.component, pytest.mark.asyncio(loop_scope="module")]

SESSIONS = [f"session-{i}" for i in range(40)]


async def test_a_session_always_reaches_the_same_replica(shared_stack: EnvoyStack) -> None:
    first = await shared_stack.place(SESSIONS)
    again = await shared_stack.place(SESSIONS)
    assert first == again
    assert set(first.values()) == {"slot-0", "slot-1"}


async def test_the_replica_header_names_the_slot_that_served(shared_stack: EnvoyStack) -> None:
    for session in SESSIONS:
        answer = await shared_stack.infer(session)
        assert answer.slot == answer.label


async def test_both_pools_place_a_session_over_all_their_slots(shared_stack: EnvoyStack) -> None:
    for pool in ("fast", "large"):
        answers = [await shared_stack.infer(session, pool=pool) for session in SESSIONS]
        assert {answer.slot for answer in answers} == {"slot-0", "slot-1"}


@pytest.mark.parametrize(
    ("session", "pool", "missing"),
    [
        (None, "fast", "x-warmline-session"),
        ("session-a", None, "x-warmline-pool"),
        ("session-a", "unknown", "x-warmline-pool"),
        (None, None, "x-warmline-session"),
    ],
)
async def test_a_request_without_pool_or_session_is_refused_by_envoy(
    shared_stack: EnvoyStack, session: str | None, pool: str | None, missing: str
) -> None:
    served = [replica.served for replica in shared_stack.replicas.values()]
    answer = await shared_stack.refusal(session, pool=pool)
    assert answer.code is grpc.StatusCode.INVALID_ARGUMENT
    assert missing in answer.message
    assert [replica.served for replica in shared_stack.replicas.values()] == served


async def test_readiness_can_be_asked_of_a_slot(shared_stack: EnvoyStack) -> None:
    metadata = (("x-warmline-pool", "fast"), ("x-warmline-session", "probe"))
    ready = await shared_stack.stub.ServerReady(service_pb2.ServerReadyRequest(), metadata=metadata)
    assert ready.ready


async def test_other_methods_are_not_served(shared_stack: EnvoyStack) -> None:
    metadata = (("x-warmline-pool", "fast"), ("x-warmline-session", "probe"))
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await shared_stack.stub.RepositoryIndex(
            service_pb2.RepositoryIndexRequest(), metadata=metadata
        )
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
