"""The package list, archives on disk, and fetching what is missing."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from builders.training import archives, fetch
from builders.training.errors import TrainingError
from builders.training.packages import Package, read_packages

ONE, TWO = Package("One_pkg", "1.0"), Package("two", "2.0")


def silent(line: str) -> None:
    """A report that nobody reads."""


def wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as out:
        for inner, text in files.items():
            out.writestr(inner, text)
    return path


def sdist(folder: Path, name: str, files: dict[str, str]) -> Path:
    path = folder / name
    with tarfile.open(path, "w:gz") as out:
        for inner, text in files.items():
            member = tarfile.TarInfo(inner)
            member.size = len(text.encode())
            out.addfile(member, io.BytesIO(text.encode()))
    return path


def test_the_list_is_read_without_the_standard_librarys_row(tmp_path: Path) -> None:
    path = tmp_path / "packages.tsv"
    rows = "package\tversion\tlicence\n", "two\t2.0\tMIT\n", "cpython standard library\t3\tPSF\n"
    path.write_text("".join(rows))
    assert read_packages(path) == [TWO]


def test_a_line_without_a_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "packages.tsv"
    path.write_text("package\tversion\tlicence\ntwo\t2.0\tMIT\none\n")
    with pytest.raises(TrainingError, match="line 3"):
        read_packages(path)


def test_a_missing_list_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="--packages"):
        read_packages(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("file_name", "release"),
    [
        ("One_Pkg-1.0-py3-none-any.whl", Package("one-pkg", "1.0")),
        ("one_pkg-1.0-7-py3-none-any.whl", Package("one-pkg", "1.0")),
        ("one-pkg-1.0.tar.gz", Package("one-pkg", "1.0")),
        ("one_pkg-1.0.zip", Package("one-pkg", "1.0")),
        ("README.md", None),
        ("broken.whl", None),
    ],
)
def test_an_archives_name_says_its_release(file_name: str, release: Package | None) -> None:
    assert archives.release_of(file_name) == release


def test_a_wheel_gives_its_python_files_alone(tmp_path: Path) -> None:
    path = wheel(tmp_path, "two-2.0-py3-none-any.whl", {"two/a.py": "a", "two/b.so": "b"})
    assert list(archives.python_files(path)) == [("two/a.py", b"a")]


def test_an_sdist_loses_its_top_and_src_folders(tmp_path: Path) -> None:
    path = sdist(tmp_path, "two-2.0.tar.gz", {"two-2.0/src/two/a.py": "a", "two-2.0/x.txt": ""})
    assert list(archives.python_files(path)) == [("two/a.py", b"a")]


def test_a_wheel_is_preferred_to_an_sdist(tmp_path: Path) -> None:
    sdist(tmp_path, "two-2.0.tar.gz", {})
    expected = wheel(tmp_path, "two-2.0-py3-none-any.whl", {})
    assert fetch.locate([TWO], [tmp_path]).archives == {TWO: expected}


def test_an_archive_that_is_there_is_not_downloaded(tmp_path: Path) -> None:
    wheel(tmp_path, "two-2.0-py3-none-any.whl", {})
    asked: list[Package] = []

    def download(package: Package, folder: Path) -> bool:
        asked.append(package)
        wheel(folder, "one_pkg-1.0-py3-none-any.whl", {})
        return True

    found = fetch.fetch([ONE, TWO], [tmp_path], tmp_path / "own", download, silent)
    assert asked == [ONE]
    assert set(found.archives) == {ONE, TWO}
    assert not found.missing


def test_another_version_takes_the_place_of_one_that_is_gone(tmp_path: Path) -> None:
    wheel(tmp_path, "two-2.1-py3-none-any.whl", {})
    found = fetch.fetch([TWO], [tmp_path], tmp_path / "own", lambda *_: False, silent)
    assert found.replaced == [TWO]
    assert "1 in another version" in found.summary()


def test_what_cannot_be_had_is_counted_and_named(tmp_path: Path) -> None:
    wheel(tmp_path, "two-2.0-py3-none-any.whl", {})
    lines: list[str] = []
    fetch.fetch([ONE, TWO], [tmp_path], tmp_path / "own", lambda *_: False, lines.append)
    assert "fetching 1/1 One_pkg 1.0: not available" in lines
    assert lines[-1].endswith("1 missing: One_pkg")


def test_offline_nothing_is_downloaded_and_nothing_found_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="none of the 1 listed packages"):
        fetch.fetch([ONE], [], tmp_path / "own", None, silent)
