"""The file that holds the installation's session secret, read at start and followed from then on.

Rotation is writing the file. It empties the cache for everyone (every salt changes), gives every
session another slot and every user another key in the records, and breaks nothing: a request keeps
what it derived before.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from orchestrator.session import SECRET_BYTES_MIN, SessionHasher, SessionSecretError

FOLLOW_SECONDS = 2.0

_log = logging.getLogger(__name__)


def read_session_secret(path: Path) -> bytes:
    """The secret's bytes; raises `SessionSecretError` with what to do where it cannot be used."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SessionSecretError(
            f"session secret {path}: {error.strerror}; create it with at least "
            f"{SECRET_BYTES_MIN} random bytes"
        ) from error


class SecretFile:
    """Keeps a hasher in step with the file; whatever is wrong with it, the last good one stays.

    A new content counts once two readings in a row agree on it, so that a file that is being
    written is not taken for a secret of its own.
    """

    def __init__(self, path: Path, hasher: SessionHasher, in_force: bytes) -> None:
        self._path = path
        self._hasher = hasher
        self._in_force = in_force
        self._candidate = in_force
        self.error = ""

    def look(self) -> None:
        """Reads the file once. Logs a fault when it begins, never what the file holds."""
        try:
            secret = read_session_secret(self._path)
            if secret != self._in_force and secret == self._candidate:
                self._hasher.rotate(secret)
                self._in_force = secret
                _log.info("the session secret was rotated")
            self._candidate = secret
        except SessionSecretError as error:
            if str(error) != self.error:
                _log.error("%s (the secret in force stays)", error)
            self.error = str(error)
        else:
            self.error = ""

    async def follow(self) -> None:
        """Looks every `FOLLOW_SECONDS` until it is cancelled."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            await asyncio.to_thread(self.look)
