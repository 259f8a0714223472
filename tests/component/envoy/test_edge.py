"""The edge listener: identity stripped, time stamped, users placed, Envoy's own errors mapped."""

import time

import httpx
import pytest

from tests.component.envoy.harness import HOST, EnvoyStack, until

pytestmark = [pytest.mark.component, pytest.mark.asyncio(loop_scope="module")]

COMPLETIONS = "/v1/inline-completions"
IDENTITY = ("x-warmline-user", "x-warmline-tenant", "x-warmline-tier", "x-warmline-role")


async def test_no_header_of_ours_comes_from_outside(shared_stack: EnvoyStack) -> None:
    claimed = dict.fromkeys((*IDENTITY, "x-warmline-anything"), "operator")
    claimed["x_warmline_user"] = "operator"
    received = received_headers(shared_stack, await shared_stack.http.get("/", headers=claimed))
    ours = {name for name in received if name.replace("_", "-").startswith("x-warmline-")}
    assert ours == {"x-warmline-received-ms"}


async def test_the_edge_stamps_when_a_request_came(shared_stack: EnvoyStack) -> None:
    before_ms = time.time_ns() // 1_000_000
    answer = await shared_stack.http.get("/", headers={"x-warmline-received-ms": "1"})
    after_ms = time.time_ns() // 1_000_000
    received_ms = int(received_headers(shared_stack, answer)["x-warmline-received-ms"])
    assert before_ms <= received_ms <= after_ms


async def test_a_request_has_an_id_of_envoys_and_the_answer_repeats_it(
    shared_stack: EnvoyStack,
) -> None:
    answer = await shared_stack.http.get("/", headers={"x-request-id": 'mine"}'})
    seen = received_headers(shared_stack, answer)["x-request-id"]
    assert answer.headers["x-request-id"] == seen != 'mine"}'


async def test_http2_without_tls_is_served_on_the_same_port(shared_stack: EnvoyStack) -> None:
    base = f"http://{HOST}:{shared_stack.port('edge')}"
    async with httpx.AsyncClient(http1=False, http2=True, base_url=base) as client:
        answer = await client.post(COMPLETIONS, content=b"{}")
    assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)


async def test_one_credential_stays_with_one_worker(shared_stack: EnvoyStack) -> None:
    async def worker_of(user: str) -> str:
        headers = {"authorization": f"Bearer {user}"}
        return (await shared_stack.http.get("/", headers=headers)).text

    users = [f"user-{i}" for i in range(30)]
    first = [await worker_of(user) for user in users]
    assert [await worker_of(user) for user in users] == first
    assert set(first) == {"worker-0", "worker-1"}


async def test_a_caller_without_credential_is_placed_by_address(shared_stack: EnvoyStack) -> None:
    assert len({(await shared_stack.http.get("/")).text for _ in range(10)}) == 1


async def test_an_error_of_the_orchestrators_own_is_passed_on(shared_stack: EnvoyStack) -> None:
    assert (await shared_stack.http.post("/v1/fail", content=b"{}")).status_code == 500


async def test_a_client_that_goes_closes_the_workers_connection(shared_stack: EnvoyStack) -> None:
    with pytest.raises(httpx.ReadTimeout):
        await shared_stack.http.post("/hold", content=b"{}", timeout=httpx.Timeout(10, read=0.3))
    workers = shared_stack.workers
    await until(lambda: [w.dropped for w in workers] == [w.held for w in workers], "it closes")
    assert sum(worker.held for worker in workers) == 1


async def test_a_body_over_the_limit_is_the_orchestrators_to_refuse(
    shared_stack: EnvoyStack,
) -> None:
    answer = await shared_stack.http.post(COMPLETIONS, content=b"x" * 3_000_000)
    assert answer.status_code == 200
    assert received_headers(shared_stack, answer)["content-length"] == "3000000"


def received_headers(stack: EnvoyStack, answer: httpx.Response) -> dict[str, str]:
    """What the worker got that gave this answer."""
    return next(w for w in stack.workers if w.name == answer.text).requests[-1].headers
