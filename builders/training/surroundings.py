"""What must be set before the process starts: the allocator, and how idle threads wait.

jemalloc, where the machine has it: training allocates and frees large blocks all the time, and
glibc's allocator faults those pages in again at every step. Threads that sleep instead of
spinning when they wait for each other: on a machine with other work, spinning burns the time that
the other thread needs. docs/training.md has the figures. Both are read at process start, so the
process replaces itself once, keeping its id.
"""

import ctypes.util
import os
import sys
from collections.abc import Mapping

_JEMALLOC_SETTINGS = "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always"


def wanted_environment(
    jemalloc: str | None, environment: Mapping[str, str]
) -> dict[str, str] | None:
    """The environment to start in, or None where the present one will do.

    What the person has set stays. `jemalloc` is the library's name, None where there is none.
    """
    wanted = {"OMP_WAIT_POLICY": "passive", **environment}
    preloaded = environment.get("LD_PRELOAD", "")
    if jemalloc is not None and "jemalloc" not in preloaded:
        wanted.setdefault("MALLOC_CONF", _JEMALLOC_SETTINGS)
        wanted["LD_PRELOAD"] = " ".join(filter(None, (preloaded, jemalloc)))
    return wanted if wanted != dict(environment) else None


def restart_if_needed(module: str) -> None:
    """Start `python -m module` anew in the wanted environment; returns where it has it."""
    environment = wanted_environment(ctypes.util.find_library("jemalloc"), os.environ)
    if environment is not None:
        flags = [f"-W{option}" for option in sys.warnoptions]
        command = [sys.executable, *flags, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, command, environment)  # noqa: S606  # this very program, no shell
