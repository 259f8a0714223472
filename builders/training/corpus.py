"""The corpus: filtered files of the packages and of the standard library, split by package.

One JSON object a line, `{"package", "path", "text"}`; the same archives and limits give the same
bytes. Files that are exact copies of an earlier one, also of a held-out one, are left out.
"""

import hashlib
import json
import random
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from builders.training import archives, filters
from builders.training.errors import TrainingError
from builders.training.files import replace_file
from builders.training.packages import Package
from builders.training.recipe import CorpusLimits

STANDARD_LIBRARY = "cpython"
SMALL_HELD_OUT_FOLDER = "email/"
_NOT_STANDARD_LIBRARY = ("site-packages", "dist-packages", "__pycache__", "test", "idlelib")


@dataclass(frozen=True)
class SourceFile:
    """One kept file; `path` as the prompt shows it."""

    package: str
    path: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """Files to learn from and files only to judge by; no package is in both."""

    training: tuple[SourceFile, ...]
    held_out: tuple[SourceFile, ...]

    def summary(self) -> str:
        """Counts, for the person."""
        size = sum(len(file.text.encode()) for file in self.training)
        return (
            f"{len(self.training)} files, {size / 1e6:.1f} MB to learn from; "
            f"{len(self.held_out)} files held out"
        )


def standard_library_files(folder: Path | None = None) -> Iterator[tuple[str, bytes]]:
    """(path, content) of the running interpreter's own library, in path order."""
    root = folder or Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        inner = path.relative_to(root)
        if inner.parts[0] not in _NOT_STANDARD_LIBRARY:
            yield inner.as_posix(), path.read_bytes()


def select(
    package: str, files: Iterable[tuple[str, bytes]], bytes_max: int, limits: CorpusLimits
) -> list[SourceFile]:
    """Files of one package that pass the filters, in a fixed random order, up to `bytes_max`."""
    kept = []
    for path, content in files:
        text = filters.decode(content)
        if text is not None and filters.keeps(path, text, limits):
            kept.append(SourceFile(package, path, text))
    random.Random(package).shuffle(kept)
    selected, used = [], 0
    for file in kept:
        used += len(file.text.encode())
        if used > bytes_max:
            break
        selected.append(file)
    return selected


def select_archive(package: Package, archive: Path, limits: CorpusLimits) -> list[SourceFile]:
    """Kept files of one archive; a damaged archive is an error that names it."""
    try:
        files = list(archives.python_files(archive))
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise TrainingError(
            f"{archive} cannot be read ({type(error).__name__}); delete it and fetch again"
        ) from error
    return select(package.key, files, limits.package_bytes_max, limits)


class Deduplicator:
    """Drops files whose exact text was seen before."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def unseen(self, files: Iterable[SourceFile]) -> list[SourceFile]:
        """The files of the batch that are new; remembers them."""
        fresh = []
        for file in files:
            digest = hashlib.sha256(file.text.encode()).digest()
            if digest not in self._seen:
                self._seen.add(digest)
                fresh.append(file)
        return fresh


def build(
    found: Mapping[Package, Path],
    held_out_packages: Iterable[Package],
    limits: CorpusLimits,
    report: Callable[[str], None],
    standard_library: Iterable[tuple[str, bytes]] | None = None,
) -> Corpus:
    """Filter all sources; held-out packages first, so that their copies never train."""
    held_out_keys = {package.key for package in held_out_packages}
    deduplicator = Deduplicator()
    held_out: list[SourceFile] = []
    training: list[SourceFile] = []
    ordered = sorted(found, key=lambda package: (package.key not in held_out_keys, package))
    for number, package in enumerate(ordered, start=1):
        kept = deduplicator.unseen(select_archive(package, found[package], limits))
        (held_out if package.key in held_out_keys else training).extend(kept)
        if number % 50 == 0:
            report(f"corpus: {number}/{len(ordered)} packages, {len(training)} files")
    library = standard_library_files() if standard_library is None else standard_library
    library_max = limits.standard_library_bytes_max
    own = select(STANDARD_LIBRARY, library, library_max, limits)
    training.extend(deduplicator.unseen(own))
    return Corpus(tuple(training), tuple(held_out))


def build_small(limits: CorpusLimits) -> Corpus:
    """A corpus for trying things out: the standard library alone, one of its packages held out."""
    inside: dict[bool, list[tuple[str, bytes]]] = {True: [], False: []}
    for path, content in standard_library_files():
        inside[path.startswith(SMALL_HELD_OUT_FOLDER)].append((path, content))
    bytes_max = limits.standard_library_bytes_max
    training = select(STANDARD_LIBRARY, inside[False], bytes_max, limits)
    held_out = select(SMALL_HELD_OUT_FOLDER, inside[True], bytes_max, limits)
    return Corpus(tuple(training), tuple(held_out))


def write(files: Iterable[SourceFile], path: Path) -> None:
    """Write files as JSON lines, atomically."""
    lines = [json.dumps(vars(file), ensure_ascii=False, sort_keys=True) for file in files]
    replace_file(path, ("\n".join(lines) + "\n" if lines else "").encode())


def read(path: Path) -> tuple[SourceFile, ...]:
    """Read what `write` wrote; raises TrainingError where there is none."""
    try:
        with path.open(encoding="utf-8") as lines:
            return tuple(SourceFile(**json.loads(line)) for line in lines)
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"no usable corpus at {path}; run the corpus stage again") from error
