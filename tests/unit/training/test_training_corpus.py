"""How files become the corpus: caps, copies, and what is held out."""

import zipfile
from pathlib import Path

import pytest

from builders.training import corpus
from builders.training.corpus import SourceFile
from builders.training.errors import TrainingError
from builders.training.packages import Package
from builders.training.recipe import CorpusLimits

LIMITS = CorpusLimits()
LEARNT, HELD_OUT = Package("learnt", "1"), Package("held", "1")


def silent(line: str) -> None:
    """A report that nobody reads."""


def source(name: str) -> str:
    return f"def {name}(left, right):\n    return left + right\n\n\n" * 20


def archive(folder: Path, package: Package, files: dict[str, str]) -> Path:
    path = folder / f"{package.name}-{package.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as out:
        for inner, text in files.items():
            out.writestr(inner, text)
    return path


def test_a_package_gives_no_more_than_its_cap() -> None:
    files = [(f"p/m{n}.py", source(f"add{n}").encode()) for n in range(20)]
    size_max = 5 * len(files[-1][1])
    kept = corpus.select("p", files, size_max, LIMITS)
    assert len(kept) == 5
    assert sum(len(file.text) for file in kept) <= size_max


def test_the_same_files_are_selected_every_time() -> None:
    files = [(f"p/m{n}.py", source(f"add{n}").encode()) for n in range(20)]
    first = corpus.select("p", files, 5_000, LIMITS)
    assert first == corpus.select("p", files, 5_000, LIMITS)


def test_held_out_packages_and_copies_of_their_files_are_never_learnt_from(
    tmp_path: Path,
) -> None:
    found = {
        LEARNT: archive(tmp_path, LEARNT, {"a.py": source("a"), "copy.py": source("secret")}),
        HELD_OUT: archive(tmp_path, HELD_OUT, {"held.py": source("secret")}),
    }
    built = corpus.build(found, [HELD_OUT], LIMITS, silent, standard_library=())
    assert [file.path for file in built.training] == ["a.py"]
    assert [file.path for file in built.held_out] == ["held.py"]


def test_exact_copies_are_learnt_once(tmp_path: Path) -> None:
    found = {LEARNT: archive(tmp_path, LEARNT, {"a.py": source("a"), "b.py": source("a")})}
    library = [("c.py", source("a").encode()), ("d.py", source("d").encode())]
    built = corpus.build(found, [], LIMITS, silent, standard_library=library)
    assert len(built.training) == 2


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "learnt-1-py3-none-any.whl"
    path.write_bytes(b"no archive")
    with pytest.raises(TrainingError, match="learnt-1"):
        corpus.build({LEARNT: path}, [], LIMITS, silent, standard_library=())


def test_a_corpus_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = (SourceFile("p", "p/a.py", "x = 'ä\u2028'\n"), SourceFile("p", "p/b.py", "y\n"))
    corpus.write(files, tmp_path / "corpus.jsonl")
    assert corpus.read(tmp_path / "corpus.jsonl") == files


def test_a_missing_corpus_names_the_stage(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="corpus stage"):
        corpus.read(tmp_path / "corpus.jsonl")


def test_the_standard_library_comes_without_its_tests_and_installed_packages(
    tmp_path: Path,
) -> None:
    for inner in ("json/decoder.py", "test/test_json.py", "site-packages/six.py"):
        path = tmp_path / inner
        path.parent.mkdir(parents=True)
        path.write_text("x = 1\n")
    assert list(corpus.standard_library_files(tmp_path)) == [("json/decoder.py", b"x = 1\n")]
