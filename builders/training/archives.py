"""Package archives on disk: which file is which release, and the Python text inside.

Wheels and sdists are read in place; nothing from them is unpacked to disk or run.
"""

import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from builders.training.packages import Package, normalised_name

MEMBER_BYTES_MAX = 1_000_000  # no kept file is larger; a larger member is not even read
_SDIST_ENDINGS = (".tar.gz", ".tar.bz2", ".zip")


def release_of(file_name: str) -> Package | None:
    """The release that an archive's name declares (PEP 427, PEP 625), or None for other files."""
    if file_name.endswith(".whl"):
        parts = file_name[: -len(".whl")].split("-")
        return Package(normalised_name(parts[0]), parts[1]) if len(parts) >= 5 else None
    for ending in _SDIST_ENDINGS:
        if file_name.endswith(ending):
            name, _, version = file_name[: -len(ending)].rpartition("-")
            return Package(normalised_name(name), version) if name else None
    return None


def index_archives(folders: Iterable[Path]) -> dict[str, dict[str, Path]]:
    """Archives by package key, then by version. Earlier folders and wheels win."""
    index: dict[str, dict[str, Path]] = {}
    for folder in folders:
        for path in sorted(folder.iterdir(), key=lambda path: (path.suffix != ".whl", path.name)):
            release = release_of(path.name)
            if release is not None:
                index.setdefault(release.key, {}).setdefault(release.version, path)
    return index


def python_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """(path inside the package, content) of every Python file, in the archive's order.

    Raises zipfile.BadZipFile, tarfile.TarError or OSError for a damaged archive.
    """
    if archive.name.endswith((".whl", ".zip")):
        yield from _from_zip(archive)
    else:
        yield from _from_tar(archive)


def _from_zip(archive: Path) -> Iterator[tuple[str, bytes]]:
    strip = archive.name.endswith(".zip")
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            if member.filename.endswith(".py") and member.file_size <= MEMBER_BYTES_MAX:
                yield _inner_path(member.filename, strip), opened.read(member)


def _from_tar(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            wanted = member.isfile() and member.name.endswith(".py")
            if wanted and member.size <= MEMBER_BYTES_MAX:
                content = opened.extractfile(member)
                if content is not None:
                    yield _inner_path(member.name, strip=True), content.read()


def _inner_path(name: str, strip: bool) -> str:
    """A path without an sdist's top folder and without a `src` folder."""
    parts = name.split("/")
    if strip:
        parts = parts[1:]
    if parts and parts[0] == "src":
        parts = parts[1:]
    return "/".join(parts)
