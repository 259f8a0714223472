"""Reads the small JSON files of a checkpoint, refusing what is not a JSON object."""

import json
from pathlib import Path
from typing import Any

from builders.refusals import BuildRefusedError


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in the file; raises `BuildRefusedError` when it is anything else."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise _refusal(path, "is not JSON") from error
    if not isinstance(document, dict):
        raise _refusal(path, f"holds a {type(document).__name__}")
    return document


def _refusal(path: Path, why: str) -> BuildRefusedError:
    return BuildRefusedError(
        f"{path.name} {why}.", "a JSON object.", "download or save the file again."
    )
