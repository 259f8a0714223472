"""The edge when workers die: users move, completions become empty, everything else stays honest."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.component.envoy.harness import EnvoyStack, envoy_stack, until

pytestmark = pytest.mark.component

COMPLETIONS = "/v1/inline-completions"


@pytest_asyncio.fixture
async def two_workers(tmp_path: Path) -> AsyncIterator[EnvoyStack]:
    async with envoy_stack(tmp_path, replicas=1, workers=2) as running:
        yield running


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


async def lose_the_worker(stack: EnvoyStack) -> None:
    await stack.workers[0].stop()

    async def is_lost() -> bool:
        return (await stack.http.get("/readyz")).status_code == 503

    await until(is_lost, "Envoy notices that the worker is gone")
