"""Recipe documents: what is shipped, what is refused and with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from orchestrator.main import build_pools
from orchestrator.prompt.engine_manifest import EngineFolderError, FimFamily, FimTemplate
from orchestrator.prompt.recipe import FimOrder, HealingMode, Section
from orchestrator.prompt.recipe_documents import (
    DEFAULT_RECIPE,
    RecipeError,
    parse_recipe,
    read_recipe,
    shipped_recipes,
)
from orchestrator.settings import parse_settings
from tests.support.engine_folder import engine_folder
from tests.support.orchestrator import prompt_engine

SETTINGS = """
settings_version: 1
worker: worker-0
listen: {{address: 127.0.0.1, port: 8101}}
metrics: {{address: 127.0.0.1, port: 8111}}
inference: {{address: 127.0.0.1, port: 8085}}
pools: [{{name: fast, engine_dir: "{folder}"}}]
session_secret_file: session.key
development_tenant: development
recipe: {recipe}
"""
SHARES = {"snippets": 0.2, "header": 0.05, "suffix": 0.25, "prefix": 0.5}


def document(**changes: Any) -> dict[str, Any]:
    sections = [
        {"section": name, "position": number, "priority": number, "share": share}
        for number, (name, share) in enumerate(SHARES.items(), 1)
    ]
    return {
        "recipe_version": 1,
        "name": "own@3",
        "families": ["suffix_first"],
        "fim_order": "model",
        "token_budget": 512,
        "token_healing": "off",
        "prefix_window": {"snap_lines": 16},
        "snippets": {"query_lines": 10, "refresh_lines": 8},
        "sections": sections,
    } | changes


def section(name: str, **changes: Any) -> list[dict[str, Any]]:
    sections: list[dict[str, Any]] = document()["sections"]
    return [each | changes if each["section"] == name else each for each in sections]


def test_the_shipped_recipes_are_those_of_the_typing_bench() -> None:
    assert shipped_recipes() == ("default@1", "prefix-first@1", "volatile@1")
    for name in shipped_recipes():
        assert read_recipe(name).name == name


def test_a_recipe_file_is_chosen_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(document()))
    assert read_recipe(str(path)).name == "own@3"


def test_off_needs_no_quotes_although_yaml_reads_it_as_false() -> None:
    text = yaml.safe_dump(document()).replace("'off'", "off")
    assert "token_healing: off" in text
    assert parse_recipe(text).token_healing is HealingMode.OFF


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"extra": 1}, "unknown field `extra`"),
        ({"recipe_version": 2}, r"recipe_version"),
        ({"name": "own"}, r"\$\.name"),
        ({"families": []}, r"\$\.families"),
        ({"families": ["sideways"]}, "sideways"),
        ({"families": ["suffix_first", "suffix_first"]}, "families must differ"),
        ({"fim_order": "random"}, "fim_order"),
        ({"token_budget": 1}, "token_budget"),
        ({"token_healing": "always"}, "token_healing"),
        ({"token_healing": True}, "token_healing"),
        ({"prefix_window": {"snap_lines": 24}}, "snap_lines must be 0 or a power of two.* got 24"),
        ({"prefix_window": {"snap_lines": 1}}, "got 1"),
        ({"prefix_window": {"snap_lines": 2048}}, r"prefix_window\.snap_lines"),
        ({"snippets": {"query_lines": 0, "refresh_lines": 8}}, "query_lines"),
        ({"snippets": {"query_lines": 20, "refresh_lines": 5}}, "refresh_lines must be"),
        ({"sections": []}, "each of .*snippets.* once"),
        ({"sections": section("header", section="suffix")}, "once, got .*suffix, suffix"),
        ({"sections": section("header", position=1)}, "positions must differ"),
        ({"sections": section("header", position=9)}, "header right before suffix and prefix"),
        ({"sections": section("snippets", position=9)}, "snippets come first"),
        ({"sections": section("suffix", priority=4)}, "prefix must have the highest priority"),
        ({"sections": section("suffix", tokens_min=9, tokens_max=8)}, "tokens_max must be"),
        ({"sections": section("suffix", share=0)}, "share"),
        ({"sections": section("suffix", colour="red")}, "colour"),
    ],
)
def test_a_recipe_that_cannot_be_used_is_refused_with_the_key_at_fault(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(RecipeError, match=complaint):
        parse_recipe(yaml.safe_dump(document(**changes)))


def test_a_worker_makes_prompts_by_the_recipe_of_its_settings(tmp_path: Path) -> None:
    text = SETTINGS.format(folder=engine_folder(tmp_path), recipe="volatile@1")
    pools = build_pools(parse_settings(text))
    pools.load_missing()
    assert pools.engine("fast").recipe.name == "volatile@1"


def test_a_worker_does_not_start_with_a_recipe_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="volatile@7"):
        build_pools(parse_settings(SETTINGS.format(folder=tmp_path, recipe="volatile@7")))


def test_what_is_no_yaml_is_refused() -> None:
    with pytest.raises(RecipeError):
        parse_recipe(": :")


def test_an_unknown_name_is_answered_with_the_names_there_are() -> None:
    with pytest.raises(RecipeError, match=r"own@1: no such recipe is shipped.*default@1"):
        read_recipe("own@1")


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="No such file"):
        read_recipe(str(tmp_path / "absent.yaml"))


def test_shares_that_do_not_fit_yield_by_priority() -> None:
    sections = [each | {"share": 0.6, "tokens_min": 50} for each in document()["sections"]]
    rooms = parse_recipe(yaml.safe_dump(document(sections=sections))).rooms(100)
    assert rooms == {
        Section.PREFIX: 60,
        Section.SUFFIX: 0,
        Section.HEADER: 0,
        Section.SNIPPETS: 0,
    }


def test_a_window_size_caps_what_a_share_would_give() -> None:
    recipe = parse_recipe(yaml.safe_dump(document(sections=section("suffix", tokens_max=20))))
    assert recipe.rooms(1000)[Section.SUFFIX] == 20


def test_positions_decide_only_where_the_recipe_says_so() -> None:
    trained = FimTemplate(FimFamily.PREFIX_FIRST, 1, 3, 2)
    suffix_leads = read_recipe(DEFAULT_RECIPE)
    assert suffix_leads.prefix_leads(trained)
    by_position = msgspec.structs.replace(suffix_leads, fim_order=FimOrder.POSITION)
    assert not by_position.prefix_leads(trained)


def test_an_engine_of_a_family_that_the_recipe_does_not_serve_is_refused() -> None:
    own = parse_recipe(yaml.safe_dump(document()))
    with pytest.raises(EngineFolderError, match=r"own@3 is for engines of .*suffix_first"):
        prompt_engine(own, fim=FimTemplate(FimFamily.PREFIX_FIRST, 1, 3, 2))


def test_a_leading_prefix_needs_a_middle_marker() -> None:
    codestral = FimTemplate(FimFamily.SUFFIX_FIRST, 1, 3, None, begin_id=5)
    with pytest.raises(EngineFolderError, match="needs a middle marker"):
        prompt_engine(read_recipe("prefix-first@1"), fim=codestral)
    assert prompt_engine(read_recipe(DEFAULT_RECIPE), fim=codestral).recipe.name == DEFAULT_RECIPE
