"""The file that holds the installation's session secret."""

from __future__ import annotations

from pathlib import Path

from orchestrator.session import SECRET_BYTES_MIN, SessionSecretError


def read_session_secret(path: Path) -> bytes:
    """The secret's bytes; raises `SessionSecretError` with what to do where it cannot be used."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SessionSecretError(
            f"session secret {path}: {error.strerror}; create it with at least "
            f"{SECRET_BYTES_MIN} random bytes"
        ) from error
