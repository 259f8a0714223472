import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.languages import OTHER, language_of
from orchestrator.pools import Pools
from orchestrator.prompt.engine import PromptEngine, load_engine
from orchestrator.prompt.engine_manifest import EngineFolderError, Origin, read_manifest
from orchestrator.prompt.recipe_documents import DEFAULT_RECIPE, read_recipe
from orchestrator.prompt.segments import SegmentTable
from tests.support.engine_folder import MANIFEST, engine_folder
from tests.support.orchestrator import prompt_engine

PREFIX_FIRST = MANIFEST["fim"] | {"family": "prefix_first"}


def load(folder: Path) -> PromptEngine:
    return load_engine(folder, read_recipe(DEFAULT_RECIPE), SegmentTable())


def test_a_whole_folder_loads(tmp_path: Path) -> None:
    engine = load(engine_folder(tmp_path))
    assert engine.manifest.fim.suffix_id == 3
    assert engine.recipe.name == "default@1"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"manifest_version": 2}, "manifest_version"),
        ({"fim": MANIFEST["fim"] | {"family": "sideways"}}, "sideways"),
        ({"fim": {"family": "suffix_first"}}, "prefix_id.*fill-in-the-middle template"),
        ({"fim": None}, "fim.*trained for infilling"),
        ({"fim": MANIFEST["fim"] | {"middle_id": 1}}, "must be different tokens"),
        ({"fim": PREFIX_FIRST | {"middle_id": None}}, "ends with the middle marker"),
        ({"fim": MANIFEST["fim"] | {"suffix_id": 99}}, r"markers \[99\] are no control_ids"),
        ({"context_tokens": 128}, "context_tokens"),
        ({"origin": "somewhere"}, "origin"),
    ],
)
def test_an_unusable_manifest_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(EngineFolderError, match=complaint):
        read_manifest(engine_folder(tmp_path, **changes))


def test_a_manifest_without_a_template_is_refused_with_what_an_engine_needs(
    tmp_path: Path,
) -> None:
    path = engine_folder(tmp_path) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["fim"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(EngineFolderError, match=r"`fim`.*family suffix_first or prefix_first"):
        read_manifest(tmp_path)


def test_a_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EngineFolderError, match="build the engine first"):
        read_manifest(tmp_path / "absent")


def test_a_damaged_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineFolderError, match="sha256"):
        load(engine_folder(tmp_path, digest="0" * 64))


def test_two_pools_over_one_folder_share_one_engine(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path)
    pools = Pools({"fast": folder, "large": folder}, load)
    pools.load_missing()
    assert pools.engine("fast") is pools.engine("large")
    assert [pool.model for pool in pools.ready.values()] == [
        "fim-fast@sha256:0123",
        "fim-large@sha256:0123",
    ]


def test_a_pool_that_was_not_loaded_yet_is_missing(tmp_path: Path) -> None:
    pools = Pools({"fast": engine_folder(tmp_path)}, load)
    assert pools.missing == {"fast": "its engine is being loaded"}


def test_a_pool_without_a_folder_is_named_and_found_later(tmp_path: Path) -> None:
    later = tmp_path / "later"
    pools = Pools({"fast": later}, load)
    pools.load_missing()
    assert "manifest" in pools.missing["fast"]
    assert not pools.ready
    later.mkdir()
    engine_folder(later, origin="local")
    pools.load_missing()
    assert not pools.missing
    assert pools.ready["fast"].unevaluated


def test_an_engine_that_is_there_is_not_loaded_again() -> None:
    loads: list[Path] = []

    def count(folder: Path) -> PromptEngine:
        loads.append(folder)
        return prompt_engine(origin=Origin.LOCAL)

    pools = Pools({"fast": Path("a"), "large": Path("a")}, count)
    pools.load_missing()
    pools.load_missing()
    assert loads == [Path("a")]


@pytest.mark.parametrize(
    ("named", "path", "language"),
    [
        ("python", "", "python"),
        ("Python", "a.js", "python"),
        ("typescriptreact", "", "tsx"),
        ("", "src/a.tsx", "tsx"),
        ("", "C:\\a\\Makefile", "makefile"),
        ("", "a.unheard-of", OTHER),
        ("my secret project", "", OTHER),
        ("", "", OTHER),
    ],
)
def test_languages_come_from_a_closed_list(named: str, path: str, language: str) -> None:
    assert language_of(named, path) == language
