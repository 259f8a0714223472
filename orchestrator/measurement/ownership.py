"""Ownership of the telemetry folder: one process at a time, or its store would be damaged.

The lock is the kernel's (`flock`), so it goes with the process however that ends; a lock file left
behind by a crash locks nobody out.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK_NAME = "owner.lock"


class FolderTakenError(RuntimeError):
    """Another process owns the folder."""


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Makes the folder where it is missing and holds it; raises `FolderTakenError`, `OSError`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / _LOCK_NAME).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderTakenError(
                f"telemetry folder {folder} is owned by another process; "
                "stop that one first, or name another folder as telemetry_dir"
            ) from error
        yield
