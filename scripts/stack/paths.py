"""Where things lie in the checkout. The environments can be named otherwise by the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

IMPORT_ROOTS = (".", "envoy", "model_repository/completion/1")
"""Folders of the checkout that Python imports from, relative to its root."""


@dataclass(frozen=True)
class Programs:
    """The programs a stack is made of; every path is absolute."""

    plane_python: Path
    triton_python: Path
    envoy: Path


def environments_folder(root: Path = ROOT) -> Path:
    """Folder that holds one virtual environment a name."""
    return root / "var" / "env"


def programs(environ: Mapping[str, str], root: Path = ROOT) -> Programs:
    """Programs of the installed environments.

    `WARMLINE_PLANE_PYTHON`, `WARMLINE_TRITON_PYTHON` and `WARMLINE_ENVOY` name others.
    """
    folder = environments_folder(root)

    def path(variable: str, default: Path) -> Path:
        return Path(environ[variable]).absolute() if environ.get(variable) else default

    return Programs(
        plane_python=path("WARMLINE_PLANE_PYTHON", folder / "plane" / "bin" / "python"),
        triton_python=path("WARMLINE_TRITON_PYTHON", folder / "triton" / "bin" / "python"),
        envoy=path("WARMLINE_ENVOY", folder / "envoy" / "bin" / "envoy"),
    )


def python_path(root: Path = ROOT) -> str:
    """Value of `PYTHONPATH` for our own processes."""
    return ":".join(str((root / part).resolve()) for part in IMPORT_ROOTS)
