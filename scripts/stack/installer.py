"""One install: `python -m venv`, then pip, watched. Standard library only."""

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.stack.errors import StackError
from scripts.stack.pip_messages import collected_in, last_lines, remedy_for, requirements_in

REPORT_EVERY_S = 10.0
PIP_OPTIONS = (
    "--no-deps",
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=off",
)


class Install:
    """Makes or completes the environment `folder` from one lock; another thread may abort it."""

    def __init__(
        self,
        folder: Path,
        lock: Path,
        fresh: bool,
        report: Callable[[str], None],
        unlocked: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self._lock = lock
        self._unlocked = unlocked
        self._fresh = fresh
        self._report = report
        self._process: subprocess.Popen[str] | None = None
        self._guard = threading.Lock()
        self._aborted = False

    def run(self) -> None:
        """Install, or raise `StackError` with the end of the output and a remedy."""
        started = time.monotonic()
        if self._fresh:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._command([_base_python(), "-I", "-m", "venv", str(self.folder)])
        # -I: neither this process's PYTHONPATH nor the user's own packages may take part.
        python = str(self.folder / "bin" / "python")
        pip = [python, "-I", "-m", "pip", "install", *PIP_OPTIONS]
        self._command([*pip, "--require-hashes", "-r", str(self._lock)])
        if self._unlocked:
            self._command([*pip, *self._unlocked])
        self._report(f"{self.folder.name}: installed in {time.monotonic() - started:.0f} s")

    def abort(self) -> None:
        """End the running command, if any, and start no other."""
        with self._guard:
            self._aborted = True
            if self._process is not None:
                self._process.terminate()

    def site_packages(self) -> Path:
        """Folder of the environment's packages."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    def _command(self, arguments: Sequence[str]) -> None:
        with self._guard:
            if self._aborted:
                raise StackError(f"{self.folder.name}: not installed.", "Run the command again.")
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        output = self._watch(self._process)
        if self._process.wait() != 0:
            raise StackError(
                f"Installing {self.folder.name} failed:\n{last_lines(output)}", remedy_for(output)
            )

    def _watch(self, process: subprocess.Popen[str]) -> str:
        total = requirements_in(self._lock.read_text(encoding="utf-8"))
        lines: list[str] = []
        reported = time.monotonic()
        for line in process.stdout or ():
            lines.append(line)
            if time.monotonic() - reported >= REPORT_EVERY_S:
                reported = time.monotonic()
                self._report(f"{self.folder.name}: {_stage(''.join(lines), total)}")
        return "".join(lines)


def _stage(output: str, total: int) -> str:
    if "Installing collected packages" in output:
        return "unpacking"
    return f"fetching, {collected_in(output)} of {total} packages"


def _base_python() -> str:
    """Return the interpreter under a virtual environment's: the one at hand may be replaced."""
    base: str = getattr(sys, "_base_executable", sys.executable)
    return base
