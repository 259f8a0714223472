"""Gets the archives of the listed packages: from local folders first, then through pip.

Bounded: one package a call, a time limit for each, a limit on what stays missing. Resumable: an
archive that is there is not fetched again. A release that cannot be had is counted and reported,
and another release of the same package that is on disk takes its place.
"""

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from builders.training.archives import index_archives
from builders.training.errors import TrainingError
from builders.training.packages import Package

PIP_LIMIT_S = 300
PARALLEL_DOWNLOADS = 2
NAMED_MAX = 10
Download = Callable[[Package, Path], bool]


@dataclass
class Fetched:
    """What is on disk after fetching; `replaced` has another version than the list names."""

    archives: dict[Package, Path] = field(default_factory=dict)
    replaced: list[Package] = field(default_factory=list)
    missing: list[Package] = field(default_factory=list)

    def summary(self) -> str:
        """Counts, for the person; what is missing by name, as far as a line holds it."""
        exact, replaced = len(self.archives) - len(self.replaced), len(self.replaced)
        line = f"{exact} releases, {replaced} in another version, {len(self.missing)} missing"
        names = ", ".join(package.name for package in self.missing[:NAMED_MAX])
        more = ", ..." if len(self.missing) > NAMED_MAX else ""
        return f"{line}: {names}{more}" if names else line


def locate(packages: Iterable[Package], folders: Sequence[Path]) -> Fetched:
    """Match the list with the archives in `folders`; nothing is downloaded."""
    index = index_archives(folder for folder in folders if folder.is_dir())
    found = Fetched()
    for package in packages:
        versions = index.get(package.key, {})
        if package.version in versions:
            found.archives[package] = versions[package.version]
        elif versions:
            found.archives[package] = versions[max(versions)]
            found.replaced.append(package)
        else:
            found.missing.append(package)
    return found


def pip_download(package: Package, folder: Path) -> bool:
    """Download one release with pip, or the newest one where that version is gone.

    Returns whether an archive came. pip's output is dropped: its exit status says what we need.
    """
    for requirement in (f"{package.name}=={package.version}", package.name):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", str(folder), requirement]
        try:
            done = subprocess.run(command, capture_output=True, timeout=PIP_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode == 0:
            return True
    return False


def fetch(
    packages: Sequence[Package],
    folders: Sequence[Path],
    destination: Path,
    download: Download | None,
    report: Callable[[str], None],
) -> Fetched:
    """Archives for `packages` out of `folders` and `destination`, downloading what is missing.

    `download` None means offline. Raises TrainingError when no archive at all can be had.
    """
    destination.mkdir(parents=True, exist_ok=True)
    everywhere = [*folders, destination]
    found = locate(packages, everywhere)
    wanted = [*found.replaced, *found.missing]
    if download is not None and wanted:
        _download_all(wanted, destination, download, report)
        found = locate(packages, everywhere)
    report(f"packages: {found.summary()}")
    if packages and not found.archives:
        raise TrainingError(
            f"none of the {len(packages)} listed packages could be had; look at the network, or "
            "name a folder with their archives by --archives"
        )
    return found


def _download_all(
    wanted: Sequence[Package],
    destination: Path,
    download: Download,
    report: Callable[[str], None],
) -> None:
    with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
        outcomes = pool.map(lambda package: (package, download(package, destination)), wanted)
        for number, (package, came) in enumerate(outcomes, start=1):
            state = "" if came else ": not available"
            report(f"fetching {number}/{len(wanted)} {package.name} {package.version}{state}")
