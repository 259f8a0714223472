"""Reads the ends of log files, and follows them."""

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

TAIL_BYTES_MAX = 1024 * 1024
FOLLOW_EVERY_S = 0.2


def tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a file; none when there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES_MAX))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-lines:] if lines > 0 else []


class Follower:
    """Returns what is appended to one file, across its rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode, self._offset = _identity(path)

    def new_text(self) -> str:
        """Return what has been written since the last call."""
        inode, size = _identity(self._path)
        if inode != self._inode or size < self._offset:
            self._inode, self._offset = inode, 0
        if size <= self._offset:
            return ""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        return data.decode("utf-8", "replace")


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_size


def follow(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield appended lines with the file they came from, without end."""
    followers = {path: Follower(path) for path in paths}
    parts = dict.fromkeys(paths, "")
    pause = threading.Event()
    while True:
        for path, follower in followers.items():
            *lines, parts[path] = (parts[path] + follower.new_text()).split("\n")
            for line in lines:
                yield path, line
        pause.wait(FOLLOW_EVERY_S)
