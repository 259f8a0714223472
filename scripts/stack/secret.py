"""The key of the session hash: random, made once, readable by its owner alone."""

import os
import secrets
from pathlib import Path

KEY_BYTES = 32


def ensure_key(path: Path) -> None:
    """Make the key unless it is there; a shorter one, from an interrupted start, is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size >= KEY_BYTES:
        path.chmod(0o600)
        return
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
    temporary.replace(path)
