"""Has the engine built that a stack serves; the builder itself skips what it has built already."""

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.stack.errors import StackError
from scripts.stack.paths import ROOT

BUILD_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class EngineSource:
    """What to build from; no `model` means the reference checkpoint."""

    model: Path | None = None
    tokenizer: Path | None = None


def engine_dir(source: EngineSource, root: Path = ROOT) -> Path:
    """Return the engine's folder: one for each pair of checkpoint and tokenizer paths."""
    if source.model is None:
        return root / "var" / "engines" / "reference"
    origin = f"{source.model.resolve()}\n{source.tokenizer and source.tokenizer.resolve()}"
    digest = hashlib.sha256(origin.encode()).hexdigest()[:8]
    return root / "var" / "engines" / f"{source.model.resolve().stem}-{digest}"


def build_command(source: EngineSource, python: Path, output: Path) -> list[str]:
    """Return the builder's command line."""
    command = [str(python), "-m", "builders.build_engine", "--target", "cpu"]
    command += ["--output", str(output)]
    if source.model is not None:
        command += ["--checkpoint", str(source.model.resolve())]
    if source.tokenizer is not None:
        command += ["--tokenizer", str(source.tokenizer.resolve())]
    return command


def build(source: EngineSource, python: Path, report: Callable[[str], None]) -> Path:
    """Build the engine, or find it built; return its folder.

    Raises `StackError` with the builder's own words when it refuses the checkpoint.
    """
    for path in (source.model, source.tokenizer):
        if path is not None and not path.exists():
            raise StackError(f"{path} does not exist.", "Correct the path.")
    output = engine_dir(source)
    result = subprocess.run(
        build_command(source, python, output),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if result.returncode != 0:
        words = (result.stderr or result.stdout).strip()
        raise StackError(words, "Mend what it says, then run the command again.")
    report(f"engine: {result.stdout.strip().splitlines()[-1]}")
    return output
