"""Checkpoints: written whole, kept few, and enough to go on as if nothing had happened."""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from builders.training.errors import TrainingError
from builders.training.files import replace_file

KEPT = 2
FORMAT = 1
_NAME = re.compile(r"step-(\d{7})\.pt")


@dataclass(frozen=True)
class Checkpoint:
    """State after `step` finished steps. `identity` says which run it belongs to."""

    step: int
    worked_s: float
    identity: str
    model: dict[str, Any]
    optimisers: list[dict[str, Any]]


def stored(folder: Path) -> list[Path]:
    """Checkpoint files, oldest first."""
    found = [path for path in folder.glob("step-*.pt") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: path.name)


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint and delete all but the newest few."""
    content = io.BytesIO()
    torch.save({"format": FORMAT, **vars(checkpoint)}, content)
    path = folder / f"step-{checkpoint.step:07d}.pt"
    replace_file(path, content.getvalue())
    for old in stored(folder)[:-KEPT]:
        old.unlink()
    return path


def load_newest(folder: Path, identity: str) -> Checkpoint | None:
    """The newest checkpoint, or None where there is none.

    Raises TrainingError when it is damaged or belongs to a run with other options.
    """
    paths = stored(folder)
    if not paths:
        return None
    try:
        content = torch.load(paths[-1], weights_only=True)
        file_format = content.pop("format")
        checkpoint = Checkpoint(**content)
    except Exception as error:  # torch raises many types for a damaged file
        raise TrainingError(f"{paths[-1]} cannot be read; delete it to resume before it") from error
    if file_format != FORMAT or checkpoint.identity != identity:
        raise TrainingError(
            f"{paths[-1]} is of a run with another recipe, seed, corpus or start; give the same "
            "options, another --work-dir, or leave --resume out"
        )
    return checkpoint
