"""The list of packages that the model learns from, as the card's `packages.tsv` names them."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from builders.training.errors import TrainingError

STANDARD_LIBRARY_ROW = "cpython standard library"  # on the list for its licence, not a package


@dataclass(frozen=True, order=True)
class Package:
    """One released package; `name` is as on the list, `key` its normalised form (PEP 503)."""

    name: str
    version: str

    @property
    def key(self) -> str:
        """The name in its canonical form."""
        return normalised_name(self.name)


def normalised_name(name: str) -> str:
    """A package name in its canonical form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_packages(path: Path) -> list[Package]:
    """Packages of a tab-separated list with the columns package, version and licence.

    Raises TrainingError when the file is missing or a line lacks a name or a version.
    """
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines, delimiter="\t"))
    except OSError as error:
        raise TrainingError(
            f"cannot read the package list {path}: {error.strerror}; name one with --packages"
        ) from error
    packages = [Package(row.get("package") or "", row.get("version") or "") for row in rows]
    for number, package in enumerate(packages, start=2):
        if not package.name or not package.version:
            raise TrainingError(
                f"{path}, line {number}: a package needs a name and a version, separated by a tab"
            )
    return [package for package in packages if package.name != STANDARD_LIBRARY_ROW]
