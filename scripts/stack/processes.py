"""Finds and ends the processes of one stack, also those whose supervisor is gone.

Every process of a stack inherits `WARMLINE_STACK` with the run folder's path, so none can hide by
being handed to another parent.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from scripts.stack.layout import RunFolder

STACK_VARIABLE = "WARMLINE_STACK"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Triton's Python backend keeps its regions
POLL_S = 0.05


def stack_processes(folder: RunFolder) -> list[int]:
    """Return the ids of the processes that belong to the stack and still run."""
    needle = f"{STACK_VARIABLE}={folder.path}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or belongs to somebody else
        if needle in variables and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return sorted(found)


def is_alive(pid: int) -> bool:
    """Say whether the process runs; one that has ended but was not collected does not."""
    try:
        stat = (Path("/proc") / str(pid) / "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def wait_until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Wait for a condition, at most `limit_s`; return whether it came."""
    pause = threading.Event()
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= until:
            return False
        pause.wait(POLL_S)
    return True


def end(folder: RunFolder, grace_s: float) -> None:
    """End what is left of the stack: SIGTERM, and after `grace_s` SIGKILL."""
    for number, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        remaining = stack_processes(folder)
        if not remaining:
            return
        _signal(remaining, number)
        wait_until(lambda: not stack_processes(folder), limit_s)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue  # it has just ended


def shared_memory_of(folder: RunFolder) -> list[Path]:
    """Return the stack's regions in /dev/shm, which a killed server leaves behind."""
    prefix = folder.shared_memory_prefix()
    return sorted(path for path in SHARED_MEMORY.iterdir() if path.name.startswith(prefix))
