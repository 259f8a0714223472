"""jemalloc, where the machine has it: training allocates and frees large blocks all the time.

With glibc's allocator every step faults those pages in again; on two cores a step then takes
several times as long (docs/training.md has the figures). A library can only be preloaded at
process start, so the process replaces itself once, keeping its id.
"""

import ctypes.util
import os
import sys
from collections.abc import Mapping

_SETTINGS = "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always"


def environment_with(library: str | None, environment: Mapping[str, str]) -> dict[str, str] | None:
    """The environment that preloads `library`, or None where nothing is to be changed."""
    if library is None or "jemalloc" in environment.get("LD_PRELOAD", ""):
        return None
    preload = " ".join(filter(None, (environment.get("LD_PRELOAD"), library)))
    return {"MALLOC_CONF": _SETTINGS, **environment, "LD_PRELOAD": preload}


def restart_with_jemalloc(module: str) -> None:
    """Start `python -m module` anew under jemalloc; returns only where that is not needed."""
    environment = environment_with(ctypes.util.find_library("jemalloc"), os.environ)
    if environment is not None:
        command = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, command, environment)  # noqa: S606  # this very program, no shell
