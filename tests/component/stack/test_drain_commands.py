"""`scripts/drain` and `scripts/undrain` on a whole stack with the fake engine."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from scripts.stack.api import RunningStack, running_stack
from scripts.stack.paths import ROOT
from scripts.stack.processes import wait_until

pytestmark = pytest.mark.component

SLOW = {"WARMLINE_FAKE_PREFILL_TOKENS_PER_S": "100"}
"""Requests of some dozen tokens stay in flight for a second or so."""
SESSIONS = 12
LIMIT_S = 20.0

Completed = subprocess.CompletedProcess[str]


@pytest.fixture
def stack() -> Iterator[RunningStack]:
    with running_stack(engine="fake", replicas=2, replica_variables=SLOW) as running:
        yield running


def command(stack: RunningStack, name: str, *arguments: str) -> Completed:
    return subprocess.run(
        launcher(stack, name, *arguments), capture_output=True, text=True, timeout=120, check=False
    )


def launcher(stack: RunningStack, name: str, *arguments: str) -> list[str]:
    return [str(ROOT / "scripts" / name), *arguments, "--run-dir", str(stack.run_dir)]


def slot(stack: RunningStack, index: int) -> dict[str, Any]:
    answer = httpx.get(f"{stack.control_plane_status_url}/v1/replicas").json()
    found: dict[str, Any] = answer["slots"][index]
    return found


def complete(stack: RunningStack, session: int) -> tuple[int, str]:
    body = {
        "session": {"installation_id": "test", "document_id": str(session)},
        "document": {"path": "a.py", "language": "python", "prefix": "x = 1\n" * 10, "suffix": ""},
        "mode": "block",
        "max_tokens": 4,
        "deadline_ms": 2000,
    }
    response = httpx.post(f"{stack.edge_url}/v1/inline-completions", json=body, timeout=30)
    return response.status_code, response.json()["outcome"]


def assert_no_error(outcomes: Sequence[tuple[int, str]]) -> None:
    """Slow as the engine is here, a deadline may pass; nothing may fail."""
    assert {status for status, _ in outcomes} == {200}
    seen = {outcome for _, outcome in outcomes}
    assert seen <= {"shown_candidate", "empty", "filtered", "expired"}


def live(stack: RunningStack, index: int) -> int:
    load = httpx.get(f"{stack.replicas[index].status_url}/load").json()
    return int(load["live_sequences"]) + int(load["waiting_sequences"])


def test_a_drained_replica_stops_and_comes_back_and_nobody_gets_an_error(
    stack: RunningStack,
) -> None:
    with ThreadPoolExecutor(SESSIONS) as pool:
        answers = [pool.submit(complete, stack, number) for number in range(SESSIONS)]
        assert wait_until(lambda: live(stack, 0) > 0, LIMIT_S), "sessions fall on both replicas"
        drained = command(stack, "drain", "replica-0", "--force")
        answers += [pool.submit(complete, stack, number) for number in range(SESSIONS)]
        outcomes = [answer.result() for answer in answers]
    assert drained.returncode == 0, drained.stdout + drained.stderr
    assert "replica-0: draining" in drained.stdout
    assert "is drained after" in drained.stdout
    assert_no_error(outcomes)
    assert "replica-0" not in stack.pids()
    assert slot(stack, 0)["drain"]["ended_by"] == "finish"

    status = command(stack, "status", "--json")
    assert status.returncode == 0, "a replica that was drained on purpose is no fault"
    stack.wait_ready()

    again = command(stack, "drain", "slot-0")
    assert (again.returncode, "replica-0" in stack.pids()) == (0, False)

    back = command(stack, "undrain", "replica-0")
    assert back.returncode == 0, back.stdout + back.stderr
    assert "serves again, at 10 % of its weight; all of it in 300 s" in back.stdout
    assert wait_until(lambda: bool(slot(stack, 0)["ramp"]["begun"]), LIMIT_S)
    assert slot(stack, 0)["weight"] == 10
    assert "10 %" in command(stack, "status").stdout
    assert command(stack, "undrain", "replica-0").returncode == 0
    assert complete(stack, 0)[0] == 200


def test_a_refusal_says_limit_actual_and_next_step_and_stops_nothing(stack: RunningStack) -> None:
    for number in range(SESSIONS):
        complete(stack, number)
    assert wait_until(lambda: slot(stack, 0)["warm_sessions"], LIMIT_S)
    refused = command(stack, "drain", "replica-0")
    assert refused.returncode == 1
    assert "25% of the" in refused.stderr
    assert "force it" in refused.stderr
    assert "replica-0" in stack.pids()
    assert slot(stack, 0)["state"] == "serving"
    unknown = command(stack, "drain", "replica-7")
    assert "Choose from: replica-0, replica-1" in unknown.stderr


def test_an_interrupted_drain_goes_on_says_so_and_can_be_taken_back(stack: RunningStack) -> None:
    with ThreadPoolExecutor(SESSIONS) as pool:
        answers = [pool.submit(complete, stack, number) for number in range(SESSIONS)]
        assert wait_until(lambda: live(stack, 0) > 0, LIMIT_S), "sessions fall on both replicas"
        draining = subprocess.Popen(
            launcher(stack, "drain", "replica-0", "--force"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert draining.stdout is not None
        assert "draining" in draining.stdout.readline()
        draining.send_signal(signal.SIGINT)
        _, said = draining.communicate(timeout=LIMIT_S)
        outcomes = [answer.result() for answer in answers]
    assert draining.returncode == 130
    assert "replica-0 is dra" in said
    assert "its process is running" in said
    assert_no_error(outcomes)
    assert "replica-0" in stack.pids()

    back = command(stack, "undrain", "replica-0")
    assert back.returncode == 0, back.stderr
    assert slot(stack, 0)["state"] == "serving"


def test_a_deadline_forces_the_end_and_keep_running_leaves_the_process(
    stack: RunningStack,
) -> None:
    with ThreadPoolExecutor(SESSIONS) as pool:
        answers = [pool.submit(complete, stack, number) for number in range(SESSIONS)]
        assert wait_until(lambda: live(stack, 0) > 0, LIMIT_S), "sessions fall on both replicas"
        drained = command(
            stack, "drain", "replica-0", "--force", "--keep-running", "--deadline-s", "0"
        )
        outcomes = [answer.result() for answer in answers]
    assert drained.returncode == 0, drained.stderr
    assert "the deadline ended it" in drained.stdout
    assert "it runs on" in drained.stdout
    assert_no_error(outcomes)
    assert "replica-0" in stack.pids()


def test_a_control_plane_killed_in_mid_drain_is_waited_for(stack: RunningStack) -> None:
    with ThreadPoolExecutor(SESSIONS) as pool:
        answers = [pool.submit(complete, stack, number) for number in range(SESSIONS)]
        assert wait_until(lambda: live(stack, 0) > 0, LIMIT_S), "sessions fall on both replicas"
        draining = subprocess.Popen(
            launcher(stack, "drain", "replica-0", "--force"), stdout=subprocess.PIPE, text=True
        )
        assert draining.stdout is not None
        assert "draining" in draining.stdout.readline()
        stack.kill("control-plane")
        rest, _ = draining.communicate(timeout=60)
        outcomes = [answer.result() for answer in answers]
    assert draining.returncode == 0, rest
    assert "is drained after" in rest
    assert_no_error(outcomes)


def test_without_a_stack_there_is_nothing_to_drain(tmp_path: Any) -> None:
    for name in ("drain", "undrain"):
        result = subprocess.run(
            [str(ROOT / "scripts" / name), "replica-0", "--run-dir", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 1
        assert "Nothing runs from" in result.stderr
        assert result.stdout == ""
