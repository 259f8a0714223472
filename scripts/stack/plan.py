"""What has to be installed: a pure function of the locks and of what the environments hold.

An environment is described by one marker file, written last. No marker, or one that does not fit,
means that the environment is made anew: a half-finished install is never repaired. The one thing
added to a complete environment is `dev` on top of `plane`, which `dev` contains.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

FOLDER_OF = {
    "plane": "plane",
    "dev": "plane",
    "triton": "triton",
    "envoy": "envoy",
    "train": "train",
}
"""Lock name to environment folder."""

UNLOCKED = {"train": ("torch==2.13.0",)}
"""Installed after a lock, by version and without hashes; requirements/train.in says why."""

DISK_MIB = {"plane": 420, "dev": 700, "triton": 800, "envoy": 260, "train": 3000}
"""Room that an install takes at its peak, downloads included: measured, and rounded up."""


@dataclass(frozen=True)
class Interpreter:
    """The Python that environments are made with."""

    version: str  # "3.11"
    prefix: str  # where it is installed


@dataclass(frozen=True)
class Marker:
    """What a complete environment says of itself."""

    interpreter: Interpreter
    root: str  # the checkout it was made for: import roots and launchers hold its path
    locks: Mapping[str, str]  # lock name to digest


@dataclass(frozen=True)
class Step:
    """One environment to work on."""

    folder: str
    lock: str  # the lock to install
    holds: tuple[str, ...]  # the locks that it then fulfils
    fresh: bool  # made anew, or added to


def steps(
    requested: Collection[str],
    markers: Mapping[str, Marker | None],
    digests: Mapping[str, str],
    interpreter: Interpreter,
    root: str,
) -> tuple[Step, ...]:
    """Return the steps that make every requested environment complete, in a stable order.

    `markers` maps folders, `digests` lock names. Unknown names are the caller's to refuse.
    """
    folders = dict.fromkeys(FOLDER_OF[name] for name in FOLDER_OF if name in requested)
    candidates = (
        _step(
            folder,
            {name for name in requested if FOLDER_OF[name] == folder},
            markers.get(folder),
            digests,
            Marker(interpreter, root, {}),
        )
        for folder in folders
    )
    return tuple(step for step in candidates if step is not None)


def _step(
    folder: str,
    wanted: set[str],
    marker: Marker | None,
    digests: Mapping[str, str],
    here: Marker,
) -> Step | None:
    made_here = (
        marker is not None and marker.interpreter == here.interpreter and marker.root == here.root
    )
    held = marker.locks if marker is not None and made_here else {}
    fitting = {name for name in held if held[name] == digests.get(name)}
    if wanted <= fitting:
        return None
    keeps_dev = folder == "plane" and (marker is not None and "dev" in marker.locks)
    lock = "dev" if "dev" in wanted or keeps_dev else next(iter(wanted))
    adds_only = lock == "dev" and "dev" not in held and "plane" in fitting
    holds = ("plane", "dev") if lock == "dev" else (lock,)
    return Step(folder=folder, lock=lock, holds=holds, fresh=not adds_only)


def disk_needed_mib(planned: Collection[Step]) -> int:
    """Room that the steps need at their peak, in MiB."""
    return sum(DISK_MIB[step.lock] for step in planned)
