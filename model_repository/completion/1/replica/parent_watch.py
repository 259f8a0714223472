"""Notices that the server process which started this one has ended.

The backend's stub finds out that a killed server is gone when it next talks to it, and an idle one
never does: it would answer health checks for a server that is no more, and hold the status port
that its successor needs.
"""

import os
import select
import threading
from collections.abc import Callable


def when_parent_ends(act: Callable[[], None]) -> None:
    """Call `act` from a daemon thread once the parent process has ended; costs nothing until then.

    Args:
        act: what to do; for a replica, leave at once.
    """
    parent = os.pidfd_open(os.getppid())
    threading.Thread(target=_wait, args=(parent, act), name="parent-watch", daemon=True).start()


def _wait(parent: int, act: Callable[[], None]) -> None:
    """A process's descriptor becomes readable when it ends (pidfd_open(2))."""
    poll = select.poll()
    poll.register(parent, select.POLLIN)
    poll.poll()
    os.close(parent)
    act()
