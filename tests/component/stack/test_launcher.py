"""`scripts/_run` alone: which Python it takes, in a checkout where nothing is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.stack.paths import ROOT

pytestmark = pytest.mark.component


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose only module prints which Python runs it."""
    root = tmp_path / "check out"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "_run", root / "scripts" / "_run")
    (root / "scripts" / "__init__.py").touch()
    (root / "scripts" / "which.py").write_text("import sys; print(sys.executable, sys.argv[1:])\n")
    return root


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder to be all of PATH: the few tools that the launcher needs, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "readlink", "dirname"):
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return folder


def add_python(folder: Path, name: str, version: str) -> None:
    """Put a program there that claims to be a Python of that version."""
    program = folder / name
    fits = "exit 1" if version < "3.11" else f'exec "{sys.executable}" "$@"'
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo Python {version} && exit\n{fits}\n'
    )
    program.chmod(0o755)


def run(checkout: Path, programs: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", checkout / "scripts" / "_run", "which", "an argument"],
        env={"PATH": str(programs), **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_without_any_python_the_message_says_which_are_needed(
    checkout: Path, programs: Path
) -> None:
    result = run(checkout, programs)
    assert result.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13; found: no python3" in result.stderr
    assert "apt install" in result.stderr


def test_a_python_that_is_too_old_is_named(checkout: Path, programs: Path) -> None:
    add_python(programs, "python3", "3.10.4")
    result = run(checkout, programs)
    assert result.returncode == 1
    assert "found: Python 3.10.4" in result.stderr


def test_a_fitting_python_is_found_behind_one_that_does_not_run(
    checkout: Path, programs: Path
) -> None:
    add_python(programs, "python3.13", "3.10")  # as a version manager's shim without a version
    add_python(programs, "python3", "3.12.1")
    result = run(checkout, programs)
    assert result.returncode == 0, result.stderr
    assert "['an argument']" in result.stdout


def test_a_python_can_be_named(checkout: Path, programs: Path) -> None:
    result = run(checkout, programs, WARMLINE_PYTHON=sys.executable)
    assert result.stdout.startswith(sys.executable)


def test_an_environment_without_its_marker_is_not_used(checkout: Path, programs: Path) -> None:
    half = checkout / "var" / "env" / "plane" / "bin"
    half.mkdir(parents=True)
    (half / "python").symlink_to(sys.executable)
    assert run(checkout, programs).returncode == 1
    (half.parent / "warmline-environment.json").write_text("{}")
    assert run(checkout, programs).stdout.startswith(str(half / "python"))
