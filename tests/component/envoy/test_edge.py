"""The edge listener: identity stripped, time stamped, users placed, Envoy's own errors mapped."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.component.envoy.harness import HOST, EnvoyStack, envoy_stack, until

pytestmark = pytest.mark.component

COMPLETIONS = "/v1/inline-completions"
IDENTITY = ("x-warmline-user", "x-warmline-tenant", "x-warmline-tier", "x-warmline-role")


@pytest_asyncio.fixture
async def two_workers(tmp_path: Path) -> AsyncIterator[EnvoyStack]:
    async with envoy_stack(tmp_path, replicas=1, workers=2) as running:
        yield running


async def test_no_header_of_ours_comes_from_outside(stack: EnvoyStack) -> None:
    claimed = dict.fromkeys((*IDENTITY, "x-warmline-anything"), "operator")
    await stack.http.get("/v1/client-contract", headers=claimed | {"x_warmline_user": "operator"})
    received = stack.workers[0].requests[-1].headers
    ours = {name for name in received if name.replace("_", "-").startswith("x-warmline-")}
    assert ours == {"x-warmline-received-ms"}


async def test_the_edge_stamps_when_a_request_came(stack: EnvoyStack) -> None:
    before_ms = time.time_ns() // 1_000_000
    await stack.http.get("/", headers={"x-warmline-received-ms": "1"})
    after_ms = time.time_ns() // 1_000_000
    assert before_ms <= int(stack.workers[0].requests[-1].headers["x-warmline-received-ms"])
    assert int(stack.workers[0].requests[-1].headers["x-warmline-received-ms"]) <= after_ms


async def test_a_request_has_an_id_of_envoys_and_the_answer_repeats_it(stack: EnvoyStack) -> None:
    answer = await stack.http.get("/", headers={"x-request-id": 'mine"}'})
    seen = stack.workers[0].requests[-1].headers["x-request-id"]
    assert answer.headers["x-request-id"] == seen != 'mine"}'


async def test_http2_without_tls_is_served_on_the_same_port(stack: EnvoyStack) -> None:
    base = f"http://{HOST}:{stack.port('edge')}"
    async with httpx.AsyncClient(http1=False, http2=True, base_url=base) as client:
        answer = await client.post(COMPLETIONS, content=b"{}")
    assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)


async def test_one_credential_stays_with_one_worker(two_workers: EnvoyStack) -> None:
    async def worker_of(user: str) -> str:
        headers = {"authorization": f"Bearer {user}"}
        return (await two_workers.http.get("/", headers=headers)).text

    users = [f"user-{i}" for i in range(30)]
    first = [await worker_of(user) for user in users]
    assert [await worker_of(user) for user in users] == first
    assert set(first) == {"worker-0", "worker-1"}


async def test_a_caller_without_credential_is_placed_by_address(two_workers: EnvoyStack) -> None:
    assert len({(await two_workers.http.get("/")).text for _ in range(10)}) == 1


async def test_a_dead_workers_users_move_to_the_other_one(two_workers: EnvoyStack) -> None:
    name = (await two_workers.http.get("/")).text
    dead = next(worker for worker in two_workers.workers if worker.name == name)
    await dead.stop()

    async def moved() -> bool:
        answer = await two_workers.http.get("/")
        return answer.status_code == 200 and answer.text != name

    await until(moved, "the other worker answers")


@pytest.mark.parametrize("target", [COMPLETIONS, f"{COMPLETIONS}?trace=1"])
async def test_without_an_orchestrator_a_completion_is_an_empty_success(
    stack: EnvoyStack, target: str
) -> None:
    await lose_the_worker(stack)
    answer = await stack.http.post(target, content=b"{}")
    body = answer.json()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert (body["suggestion"], body["outcome"]) == ("", "failed")
    assert body["id"] == answer.headers["x-request-id"]
    assert {"x-policy-version", "x-debounce-hint-ms"} <= set(answer.headers)
    assert answer.text == json.dumps(body, separators=(",", ":"))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/readyz"), ("GET", COMPLETIONS), ("POST", "/v1/completion-events")],
)
async def test_without_an_orchestrator_everything_else_keeps_its_503(
    stack: EnvoyStack, method: str, path: str
) -> None:
    await lose_the_worker(stack)
    assert (await stack.http.request(method, path)).status_code == 503


async def test_an_error_of_the_orchestrators_own_is_passed_on(stack: EnvoyStack) -> None:
    assert (await stack.http.post("/v1/fail", content=b"{}")).status_code == 500


async def test_a_client_that_goes_closes_the_workers_connection(stack: EnvoyStack) -> None:
    worker = stack.workers[0]
    with pytest.raises(httpx.ReadTimeout):
        await stack.http.post("/hold", content=b"{}", timeout=httpx.Timeout(10, read=0.3))
    await until(lambda: worker.dropped == worker.held == 1, "the worker sees the reset")


async def test_a_body_over_the_limit_is_the_orchestrators_to_refuse(stack: EnvoyStack) -> None:
    answer = await stack.http.post(COMPLETIONS, content=b"x" * 3_000_000)
    assert answer.status_code == 200
    assert stack.workers[0].requests[-1].headers["content-length"] == "3000000"


async def lose_the_worker(stack: EnvoyStack) -> None:
    await stack.workers[0].stop()

    async def is_lost() -> bool:
        return (await stack.http.get("/readyz")).status_code == 503

    await until(is_lost, "Envoy notices that the worker is gone")
