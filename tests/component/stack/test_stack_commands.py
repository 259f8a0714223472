"""The commands that people run, on a real stack with the fake engine."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scripts.stack.api import free_ports
from scripts.stack.layout import ADDRESS, RunFolder
from scripts.stack.paths import ROOT
from scripts.stack.processes import shared_memory_of, stack_processes, wait_until

pytestmark = pytest.mark.component

Completed = subprocess.CompletedProcess[str]


class Stack(NamedTuple):
    """The arguments of one stack's commands."""

    folder: RunFolder
    edge_port: int
    port_base: int

    @property
    def here(self) -> tuple[str, str]:
        return "--run-dir", str(self.folder.path)

    def run(self, command: str, *arguments: str, **options: Any) -> Completed:
        return subprocess.run(
            [options.pop("path", ROOT / "scripts" / command), *arguments, *self.here],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            **options,
        )

    def up(self, *arguments: str, **options: Any) -> Completed:
        return self.run("up", *self.fake, *arguments, **options)

    @property
    def fake(self) -> tuple[str, ...]:
        ports = ("--port", str(self.edge_port), "--port-base", str(self.port_base))
        return "--engine", "fake", "--workers", "1", "--replicas", "1", *ports

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return status

    def process(self, name: str) -> dict[str, Any]:
        return next(one for one in self.status()["processes"] if one["name"] == name)

    def assert_nothing_is_left(self) -> None:
        assert stack_processes(self.folder) == []
        assert shared_memory_of(self.folder) == []
        assert not self.folder.state.exists()


def new_stack(folder: Path) -> Stack:
    return Stack(RunFolder(folder.resolve()), *free_ports())


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One for the tests that leave it running; its path has a sign that the supervisor expands."""
    made = new_stack(tmp_path_factory.mktemp("100%"))
    started = made.up()
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        yield made
    finally:
        made.run("down")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Stack]:
    made = new_stack(tmp_path / "other")
    yield made
    made.run("down")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "sum.py"
    path.write_text("def add(a, b):\n    return \n")
    return path


def test_up_again_says_that_it_runs_and_shows_a_completion(stack: Stack) -> None:
    pids = {one["pid"] for one in stack.status()["processes"]}
    again = stack.up()
    assert again.returncode == 0
    assert "already running" in again.stdout
    assert f"http://127.0.0.1:{stack.edge_port}/v1/inline-completions" in again.stdout
    assert "time (ms)   total" in again.stdout
    assert {one["pid"] for one in stack.status()["processes"]} == pids


def test_up_with_other_settings_is_refused_and_changes_nothing(stack: Stack) -> None:
    refused = stack.up("--replicas", "2")
    assert refused.returncode == 1
    assert "replicas is 1, not 2" in refused.stderr
    assert "scripts/down" in refused.stderr
    assert stack.status()["ready"]


def test_a_taken_port_is_named_with_its_holder_and_nothing_is_started(
    stack: Stack, other: Stack
) -> None:
    refused = other._replace(edge_port=stack.edge_port).up()
    assert refused.returncode == 1
    assert f"Port {stack.edge_port} (edge) is taken by process" in refused.stderr
    assert "(envoy)" in refused.stderr
    assert "--port N" in refused.stderr
    other.assert_nothing_is_left()


def test_status_shows_every_process_and_the_replicas_load(stack: Stack) -> None:
    shown = stack.run("status")
    assert shown.returncode == 0, shown.stderr
    for name in ("envoy", "worker-0", "replica-0", "control-plane", "measurement"):
        assert name in shown.stdout
    (replica,) = stack.status()["replicas"]
    assert replica["load"]["live_sequences"] == 0


def test_complete_prints_the_line_and_what_it_cost(stack: Stack, source: Path) -> None:
    shown = stack.run("complete", "--mode", "line", f"{source}:2:12")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("    return ")
    assert "\x1b" not in shown.stdout
    assert "cached" in shown.stdout


def test_complete_says_how_long_the_line_really_is(stack: Stack, source: Path) -> None:
    refused = stack.run("complete", f"{source}:2:40")
    assert refused.returncode == 1
    assert "has 11 characters; column 40 was asked for" in refused.stderr


def test_complete_works_from_another_folder_and_through_a_link(
    stack: Stack, source: Path, tmp_path: Path
) -> None:
    link = tmp_path / "my-complete"
    link.symlink_to(ROOT / "scripts" / "complete")
    shadow = source.parent / "scripts"  # a common name for a folder, and ours too
    shadow.mkdir()
    (shadow / "__init__.py").touch()
    shown = stack.run("complete", "sum.py:2:12", path=link, cwd=source.parent)
    assert shown.returncode == 0, shown.stderr


def test_logs_show_one_process_and_refuse_an_unknown_name(stack: Stack) -> None:
    assert "node envoy-local connected" in stack.run("logs", "control-plane").stdout
    refused = stack.run("logs", "nonsense")
    assert refused.returncode == 1
    assert "Choose from: control-plane, envoy" in refused.stderr


@pytest.mark.parametrize("name", ["replica-0", "envoy", "worker-0", "control-plane"])
def test_a_killed_process_is_restarted_and_the_stack_is_ready_again(
    stack: Stack, name: str
) -> None:
    before = stack.process(name)
    os.kill(before["pid"], signal.SIGKILL)
    assert wait_until(lambda: stack.process(name)["restarts"] > before["restarts"], 30)
    assert wait_until(lambda: stack.status()["ready"], 60), stack.status()


def test_no_process_may_dump_its_memory(stack: Stack) -> None:
    for pid in stack_processes(stack.folder):
        limits = (Path("/proc") / str(pid) / "limits").read_text()
        (core,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
        assert core.split()[4:6] == ["1", "1"]


def test_commands_on_a_stack_that_does_not_run_say_so(other: Stack, source: Path) -> None:
    assert "Start a stack with scripts/up" in other.run("status").stderr
    assert "No stack runs from" in other.run("complete", f"{source}:1:1").stderr
    assert "nothing runs" in other.run("down").stdout


def test_down_leaves_no_process_no_shared_memory_and_no_state(other: Stack) -> None:
    assert other.up("--quiet").returncode == 0
    assert stack_processes(other.folder)
    assert other.run("down").returncode == 0
    other.assert_nothing_is_left()
    assert other.folder.session_secret.stat().st_mode & 0o777 == 0o600


def test_a_stack_whose_supervisor_was_killed_is_cleaned_up_and_started_anew(other: Stack) -> None:
    assert other.up("--quiet").returncode == 0
    orphans = stack_processes(other.folder)
    supervisor = int((other.folder.state / "supervisord.pid").read_text())
    os.kill(supervisor, signal.SIGKILL)
    assert "The supervisor of" in other.run("status").stderr
    again = other.up("--no-demo")
    assert again.returncode == 0, again.stderr
    assert "an earlier start was interrupted" in again.stdout
    assert not set(orphans) & set(stack_processes(other.folder))


def test_a_start_that_fails_shows_the_log_of_the_process_at_fault_and_leaves_nothing(
    other: Stack, tmp_path: Path
) -> None:
    broken = tmp_path / "envoy"
    broken.write_text("#!/bin/sh\necho this Envoy is broken >&2\nexit 3\n")
    broken.chmod(0o755)
    failed = other.up(env={**os.environ, "WARMLINE_ENVOY": str(broken)})
    assert failed.returncode == 1
    assert "envoy does not stay up" in failed.stderr
    assert "this Envoy is broken" in failed.stderr
    other.assert_nothing_is_left()


def test_an_interrupted_start_leaves_nothing(other: Stack) -> None:
    command = [ROOT / "scripts" / "up", *other.fake, *other.here]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as up:
        assert wait_until(lambda: len(stack_processes(other.folder)) > 2, 60)
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)
    assert up.returncode == 130
    other.assert_nothing_is_left()


def test_a_deep_run_folder_works_although_its_path_is_too_long_for_a_socket(
    tmp_path: Path,
) -> None:
    deep = new_stack(tmp_path / "/".join(["folder"] * 12))
    try:
        started = deep.up()
        assert started.returncode == 0, started.stderr
        assert deep.status()["ready"]
    finally:
        deep.run("down")
    deep.assert_nothing_is_left()


def test_a_run_folder_that_triton_cannot_work_in_is_refused(tmp_path: Path) -> None:
    refused = new_stack(tmp_path / "a stack").up()
    assert refused.returncode == 1
    assert "The path of the run folder" in refused.stderr
    assert not (tmp_path / "a stack").exists()


def test_a_port_taken_by_somebody_else_is_told_before_anything_is_installed(other: Stack) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((ADDRESS, other.port_base + 4))
        holder.listen()
        refused = other.up()
    assert refused.returncode == 1
    assert f"Port {other.port_base + 4} (inference) is taken by process {os.getpid()}" in (
        refused.stderr
    )
    assert "--port-base N" in refused.stderr
    assert not other.folder.logs.exists()
