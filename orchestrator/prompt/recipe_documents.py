"""Recipes from YAML: strict, and every complaint names the key, the limit and the actual value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import yaml

from orchestrator.prompt.recipe import PromptRecipe, Section

DEFAULT_RECIPE = "default@1"

_NAME = re.compile(r"[a-z][a-z0-9-]*@[1-9][0-9]*")


class RecipeError(ValueError):
    """The recipe cannot be used; the message says which key is wrong."""


def read_recipe(name_or_path: str) -> PromptRecipe:
    """The shipped recipe of that name (`default@1`), or the one in the file at that path.

    Raises `RecipeError`.
    """
    is_name = _NAME.fullmatch(name_or_path) is not None
    try:
        recipe = parse_recipe(_shipped(name_or_path) if is_name else _file(name_or_path))
    except RecipeError as error:
        raise RecipeError(f"recipe {name_or_path}: {error}") from error
    if is_name and recipe.name != name_or_path:
        raise RecipeError(f"recipe {name_or_path}: the document calls itself {recipe.name}")
    return recipe


def shipped_recipes() -> tuple[str, ...]:
    """The names of the recipes that come with the orchestrator."""
    folder = resources.files("orchestrator.prompt") / "recipes"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))


def parse_recipe(text: str) -> PromptRecipe:
    """The recipe in a YAML text; raises `RecipeError`."""
    try:
        recipe = msgspec.convert(_with_off_as_text(yaml.safe_load(text)), PromptRecipe)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise RecipeError(str(error)) from error
    for complaint in _complaints(recipe):
        raise RecipeError(complaint)
    return recipe


def _with_off_as_text(document: Any) -> Any:
    """YAML 1.1 reads a bare `off` as false."""
    if isinstance(document, dict) and document.get("token_healing") is False:
        return document | {"token_healing": "off"}
    return document


def _shipped(name: str) -> str:
    source = resources.files("orchestrator.prompt") / "recipes" / f"{name}.yaml"
    if not source.is_file():
        raise RecipeError(
            f"no such recipe is shipped; choose from {', '.join(shipped_recipes())}, "
            "or give the path of a recipe file"
        )
    return source.read_text("utf-8")


def _file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise RecipeError(
            f"{error.strerror}; give a readable file, or the name of a shipped recipe "
            f"({', '.join(shipped_recipes())})"
        ) from error
    except UnicodeDecodeError as error:
        raise RecipeError("the file is not UTF-8 text") from error


def _complaints(recipe: PromptRecipe) -> Iterator[str]:
    """What a type cannot say, one sentence each."""
    names = [rule.section for rule in recipe.sections]
    if sorted(names) != sorted(Section):
        yield f"sections must be each of {_listed(Section)} once, got {_listed(names)}"
        return
    yield from _complaints_of_places(recipe)
    for rule in recipe.sections:
        if rule.tokens_max is not None and rule.tokens_max < rule.tokens_min:
            yield (
                f"section {rule.section}: tokens_max must be at least tokens_min "
                f"({rule.tokens_min}), got {rule.tokens_max}"
            )
    if len(set(recipe.families)) < len(recipe.families):
        yield f"families must differ, got {_listed(recipe.families)}"
    for key, lines in (
        ("prefix_window.snap_lines", recipe.prefix_window.snap_lines),
        ("snippets.refresh_lines", recipe.snippets.refresh_lines),
    ):
        if lines == 1 or lines & (lines - 1):
            yield f"{key} must be 0 or a power of two from 2 on, got {lines}"


def _complaints_of_places(recipe: PromptRecipe) -> Iterator[str]:
    ordered = sorted(recipe.sections, key=lambda rule: rule.position)
    positions = [rule.position for rule in ordered]
    if len(set(positions)) < len(positions):
        yield f"sections: positions must differ, got {positions}"
    order = [rule.section for rule in ordered]
    if order[:2] != [Section.SNIPPETS, Section.HEADER]:
        yield (
            "sections: by position, snippets come first and the header right before suffix and "
            f"prefix (a model completes the file that was named last), got {_listed(order)}"
        )
    prefix = recipe.rule(Section.PREFIX)
    highest = max(
        (rule for rule in recipe.sections if rule is not prefix), key=lambda rule: rule.priority
    )
    if highest.priority >= prefix.priority:
        yield (
            "sections: the prefix must have the highest priority, because the cursor's line is "
            f"never dropped; it has {prefix.priority}, {highest.section} {highest.priority}"
        )


def _listed(names: Any) -> str:
    return "[" + ", ".join(str(name) for name in names) + "]"
