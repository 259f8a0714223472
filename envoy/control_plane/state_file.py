"""The state file beside the topology: drains, ramps and factors over a restart.

Owns reading and writing. The rule: what is on disk is always a whole state, the newest one or the
one before, and a state that cannot be read is never taken for an empty one: that would undrain
every slot.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

import msgspec

from .fleet_state import FleetState

BYTES_MAX: Final = 1024 * 1024


class StateError(Exception):
    """The state cannot be read or written; the message says what, why and the next step."""


class StateFile:
    """One state at `path`, the one before at `path` with `.previous` appended.

    `note` says where the newest copy could not be read and the one before is in force.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._previous = path.with_name(path.name + ".previous")
        self._is_current_good = True
        self.note = ""

    def load(self) -> FleetState | None:
        """The state on disk, None where there is none; raises StateError where it is unreadable."""
        if not self._path.exists():
            return None
        try:
            return _read(self._path)
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            self._is_current_good = False
            reason = f"{self._path.name} cannot be used: {error}"
        try:
            state = _read(self._previous)
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            raise StateError(
                f"the state must be readable, but {reason}, and {self._previous.name} neither: "
                f"{error}; mend it, or delete both to start with every slot serving"
            ) from error
        self.note = f"{reason}; {self._previous.name} is in force"
        return state

    def save(self, state: FleetState) -> None:
        """Put `state` on disk, durably, before returning; raises StateError."""
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            _write(fresh, msgspec.json.encode(state))
            if self._is_current_good and self._path.exists():
                self._previous.unlink(missing_ok=True)
                os.link(self._path, self._previous)
            fresh.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            raise StateError(
                f"the state must be on disk before it is in force, but {self._path.name} cannot be "
                f"written: {os.strerror(error.errno or 0)}; make its folder writable, or name "
                "another file with --state"
            ) from error
        self._is_current_good, self.note = True, ""


def _read(path: Path) -> FleetState:
    with path.open("rb") as file:
        document = file.read(BYTES_MAX + 1)
    if len(document) > BYTES_MAX:
        raise ValueError(f"at most {BYTES_MAX} bytes, got more")
    return msgspec.json.decode(document, type=FleetState)


def _write(path: Path, document: bytes) -> None:
    with path.open("wb") as file:
        file.write(document)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot, and need not
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
