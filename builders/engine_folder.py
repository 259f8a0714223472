"""Puts an engine folder in place whole or not at all.

Files are written to a hidden folder beside the output and renamed into place when complete, under
a lock, so that two builds of one engine cannot meet and what an earlier, killed build left behind
is known to be stale.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builders.manifest import MANIFEST_FILE, engine_digest, engine_file
from builders.refusals import BuildRefusedError

# The digest of everything that went into the build; beside the manifest, because it says where
# the engine came from and not what it is.
BUILD_FILE = "build.json"
FREE_SPACE_MARGIN_BYTES = 64 * 1024 * 1024


def finished_engine(output: Path, input_digest: str) -> dict[str, Any] | None:
    """The manifest of a complete engine that was built from this input, else None."""
    try:
        build = json.loads((output / BUILD_FILE).read_bytes())
        manifest: dict[str, Any] = json.loads((output / MANIFEST_FILE).read_bytes())
        if build["input_digest"] != input_digest:
            return None
        if manifest["engine_digest"] != engine_digest(manifest):
            return None
        for stored in manifest["files"].values():
            found = engine_file(output / stored["path"])
            if (found.bytes, found.sha256) != (stored["bytes"], stored["sha256"]):
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold the build lock of `output`; a second builder of the same engine waits."""
    with _machine_faults(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        lock = (output.parent / f".{output.name}.lock").open("a")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def staged(output: Path, expected_bytes: int) -> Iterator[Path]:
    """A folder to write the engine into; it becomes `output` when the block ends without error.

    Needs the lock. Raises `BuildRefusedError` when the disk is too full or not writable, or when
    `output` holds files that are not an engine's.
    """
    _refuse_foreign_folder(output)
    staging = output.parent / f".{output.name}.building"
    replaced = output.parent / f".{output.name}.replaced"
    with _machine_faults(output):
        for stale in (staging, replaced):
            shutil.rmtree(stale, ignore_errors=True)
        _refuse_full_disk(output.parent, expected_bytes)
        staging.mkdir()
        try:
            yield staging
            _flush(staging)
            _swap(output, staging, replaced)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            shutil.rmtree(replaced, ignore_errors=True)


def _swap(output: Path, staging: Path, replaced: Path) -> None:
    """Put the new folder in the old one's place; the old one comes back if that fails."""
    if output.exists():
        output.rename(replaced)
    try:
        staging.rename(output)
    except OSError:
        if replaced.exists():
            replaced.rename(output)
        raise


def _flush(folder: Path) -> None:
    """Bring data to the disk before the rename, so that a power cut cannot leave empty files."""
    for path in (*folder.iterdir(), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refuse_foreign_folder(output: Path) -> None:
    if not output.exists():
        return
    engine_names = {MANIFEST_FILE, BUILD_FILE, "tokenizer.json", "model.gguf"}
    foreign = [output] if not output.is_dir() else list(output.iterdir())
    strangers = sorted(path.name for path in foreign if path.name not in engine_names)
    if strangers:
        raise BuildRefusedError(
            f"{output} exists and holds what no engine has: {strangers[0]}.",
            "a folder that does not exist yet, or one that holds an engine.",
            "choose another --output, or remove it.",
        )


def _refuse_full_disk(folder: Path, expected_bytes: int) -> None:
    free, needed = shutil.disk_usage(folder).free, expected_bytes + FREE_SPACE_MARGIN_BYTES
    if free < needed:
        raise BuildRefusedError(
            f"{folder} has {free / 1e6:.0f} MB free.",
            f"{needed / 1e6:.0f} MB for this engine.",
            "free some space, or choose an --output on another disk.",
        )


@contextmanager
def _machine_faults(output: Path) -> Iterator[None]:
    """Turn the operating system's answers into refusals that name the remedy."""
    try:
        yield
    except OSError as error:
        reasons = {
            errno.ENOSPC: ("the disk is full", "free some space"),
            errno.EDQUOT: ("the disk quota is used up", "free some space"),
            errno.EACCES: ("it is not writable", "change its permissions"),
            errno.EPERM: ("it is not writable", "change its permissions"),
            errno.EROFS: ("its file system is read-only", "choose another disk"),
            errno.ENOTDIR: ("its parent is a file", "correct the path"),
            errno.EEXIST: ("its parent is a file", "correct the path"),
        }
        if error.errno not in reasons:
            raise
        what, remedy = reasons[error.errno]
        raise BuildRefusedError(
            f"The engine cannot be written to {output}: {what}.",
            "a writable folder with room for the engine.",
            f"{remedy}, or choose another --output.",
        ) from error
