import errno
import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from builders import engine_folder
from builders.engine_build import build
from builders.engine_folder import staged
from builders.engine_plan import BuildRequest
from builders.refusals import BuildRefusedError
from tests.unit.builders.tiny_checkpoints import Sizes, write_huggingface

DiskUsage = namedtuple("DiskUsage", "total used free")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    sizes = Sizes(layers=1, hidden=32, feed_forward=32, heads=2, key_value_heads=1, head_dim=16)
    write_huggingface(folder, "llama", sizes=sizes)
    return folder


@pytest.fixture
def engine(model: Path, tmp_path: Path) -> Path:
    build(BuildRequest(model, tmp_path / "engine"))
    (tmp_path / ".engine.lock").unlink()
    return tmp_path / "engine"


def test_an_engine_of_the_same_input_is_left_as_it_is(engine: Path, model: Path) -> None:
    before = (engine / "model.gguf").stat()
    result = build(BuildRequest(model, engine))
    after = (engine / "model.gguf").stat()
    assert not result.built
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize(
    "damage",
    [
        lambda engine: (engine / "manifest.json").unlink(),
        lambda engine: (engine / "build.json").write_text("{"),
        lambda engine: (engine / "model.gguf").write_bytes(b"GGUF"),
        lambda engine: (engine / "tokenizer.json").write_text("{}"),
        lambda engine: (engine / "manifest.json").write_text("[]"),
    ],
    ids=["no manifest", "cut build file", "cut weights", "other tokenizer", "no object"],
)
def test_a_half_written_or_changed_engine_is_replaced(engine: Path, model: Path, damage) -> None:
    whole = (engine / "manifest.json").read_bytes()
    damage(engine)
    assert build(BuildRequest(model, engine)).built
    assert (engine / "manifest.json").read_bytes() == whole
    assert not build(BuildRequest(model, engine)).built


def test_another_option_is_another_input_and_replaces_the_engine(engine: Path, model: Path) -> None:
    result = build(BuildRequest(model, engine, context_tokens=1024))
    assert result.built
    assert json.loads((engine / "manifest.json").read_text())["context_tokens"] == 1024


def test_a_failed_build_leaves_the_old_engine_and_no_rest(engine: Path) -> None:
    before = (engine / "manifest.json").read_bytes()

    def write_half() -> None:
        with staged(engine, expected_bytes=0) as folder:
            (folder / "model.gguf").write_bytes(b"half")
            raise RuntimeError("killed here")

    with pytest.raises(RuntimeError, match="killed here"):
        write_half()
    assert (engine / "manifest.json").read_bytes() == before
    assert [path.name for path in engine.parent.iterdir()] == ["engine"]


def test_what_a_killed_build_left_behind_is_cleared(engine: Path, model: Path) -> None:
    stale = engine.parent / ".engine.building"
    stale.mkdir()
    (stale / "model.gguf").write_bytes(b"half")
    build(BuildRequest(model, engine, context_tokens=1024))
    assert not stale.exists()


def test_a_folder_with_anything_else_in_it_is_never_replaced(tmp_path: Path, model: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BuildRefusedError, match=r"holds what no engine has: thesis\.txt"):
        build(BuildRequest(model, tmp_path))
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_full_disk_is_refused_before_anything_is_written(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(10**9, 10**9, 1_000_000))
    with pytest.raises(BuildRefusedError, match=r"has 1 MB free\.\n  supported: 67 MB"):
        build(BuildRequest(model, tmp_path / "engine"))
    assert not (tmp_path / "engine").exists()


@pytest.mark.parametrize(
    ("fault", "what"),
    [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "it is not writable")],
)
def test_a_fault_while_writing_names_the_remedy_and_leaves_nothing(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, fault: int, what: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(fault, "no")

    monkeypatch.setattr(engine_folder.os, "fsync", fail)
    with pytest.raises(BuildRefusedError, match=what):
        build(BuildRequest(model, tmp_path / "engine"))
    assert [path.name for path in tmp_path.iterdir()] == [".engine.lock"]


def test_a_fault_at_the_last_step_brings_the_old_engine_back(
    engine: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (engine / "manifest.json").read_bytes()
    rename = Path.rename

    def fail_for_the_new_one(path: Path, to: Path) -> Path:
        if path.name == ".engine.building":
            raise OSError(errno.EACCES, "no")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    with pytest.raises(BuildRefusedError, match="not writable"):
        build(BuildRequest(model, engine, context_tokens=1024))
    assert (engine / "manifest.json").read_bytes() == before


def test_an_output_below_a_file_is_refused(tmp_path: Path, model: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BuildRefusedError, match="its parent is a file"):
        build(BuildRequest(model, tmp_path / "file/engine"))
