"""The Python API that tests and benches start stacks with."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from scripts.stack.api import RunningStack, running_stack
from scripts.stack.errors import StackError
from scripts.stack.processes import shared_memory_of, stack_processes, wait_until
from scripts.stack.progress import SilentProgress
from scripts.stack.running import stop

pytestmark = pytest.mark.component

IN_FLIGHT = 4
PREFILL_TOKENS_PER_S = "200"
"""Of the fake engine: a request of some dozen tokens stays in flight for a good while."""


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    with running_stack(engine="fake", replicas=1) as running:
        yield running


def complete(stack: RunningStack, document: int) -> dict[str, Any]:
    body = {
        "session": {"installation_id": "test", "document_id": str(document)},
        "document": {"path": "a.py", "language": "python", "prefix": "x = 1\n" * 10, "suffix": ""},
        "mode": "block",
        "max_tokens": 4,
    }
    response = httpx.post(f"{stack.edge_url}/v1/inline-completions", json=body, timeout=30)
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    return answer


def requests_at_the_edge(stack: RunningStack) -> int:
    query = "/stats?filter=^http.edge.downstream_rq_active$"
    return int(httpx.get(stack.envoy_admin_url + query).text.rpartition(": ")[2])


def test_a_stop_lets_the_requests_in_flight_have_their_answers() -> None:
    slow = {"WARMLINE_FAKE_PREFILL_TOKENS_PER_S": PREFILL_TOKENS_PER_S}
    with (
        running_stack(engine="fake", replicas=1, replica_variables=slow) as stack,
        ThreadPoolExecutor(IN_FLIGHT) as pool,
    ):
        futures = [pool.submit(complete, stack, number) for number in range(IN_FLIGHT)]
        assert wait_until(lambda: requests_at_the_edge(stack) == IN_FLIGHT, 10)
        stop(stack.folder, SilentProgress())
        outcomes = {future.result()["outcome"] for future in futures}
    assert outcomes <= {"shown_candidate", "empty", "filtered"}
    assert stack_processes(stack.folder) == []


def test_a_stopped_process_stays_down_until_it_is_started(stack: RunningStack) -> None:
    stack.stop_process("replica-0")
    assert "replica-0" not in stack.pids()
    assert not all(view.ready for view in stack.views())
    stack.start_process("replica-0")
    stack.wait_ready()
    assert "replica-0" in stack.pids()


def test_killing_what_does_not_run_names_what_does(stack: RunningStack) -> None:
    with pytest.raises(StackError, match="Choose from: control-plane, envoy"):
        stack.kill("replica-7")


def test_everything_is_stopped_and_removed_even_when_the_block_raises() -> None:
    def fail_midway(seen: list[RunningStack]) -> None:
        with running_stack(engine="fake", replicas=1) as stack:
            seen.append(stack)
            assert stack_processes(stack.folder)
            raise KeyError

    stacks: list[RunningStack] = []
    with pytest.raises(KeyError):
        fail_midway(stacks)
    (folder,) = [stack.folder for stack in stacks]
    assert stack_processes(folder) == []
    assert shared_memory_of(folder) == []
    assert not folder.path.exists()
