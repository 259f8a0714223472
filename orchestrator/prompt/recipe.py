"""Prompt recipes: versioned YAML documents that say what goes into a prompt and how much of it.

A recipe never names the cache salt, a model or a token id: those are the request's and the
manifest's.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import resources
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta


class RecipeError(ValueError):
    """The recipe cannot be used; the message says which key is wrong."""


class Section(StrEnum):
    """The parts of a prompt."""

    HEADER = "header"
    SNIPPETS = "snippets"
    SUFFIX = "suffix"
    PREFIX = "prefix"


class SectionBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Room for one section.

    `share` is of the whole budget; where shares do not fit together the lower `priority` yields,
    and a section left with fewer than `tokens_min` tokens is dropped. What others leave unused
    goes to the prefix.
    """

    section: Section
    priority: int
    share: Annotated[float, Meta(gt=0, le=1)]
    tokens_min: Annotated[int, Meta(ge=0)] = 0


class PromptRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One version of one recipe. `token_budget` counts the prompt, markers included."""

    recipe_version: Annotated[int, Meta(ge=1, le=1)]
    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]*@[1-9][0-9]*$")]
    token_budget: Annotated[int, Meta(ge=64, le=32768)]
    sections: tuple[SectionBudget, ...]

    def rooms(self, budget_tokens: int) -> dict[Section, int]:
        """Tokens each section may take out of `budget_tokens`; 0 for one that is dropped."""
        rooms, left = {}, budget_tokens
        for section in sorted(self.sections, key=lambda each: -each.priority):
            room = min(int(section.share * budget_tokens), left)
            rooms[section.section] = room if room >= section.tokens_min else 0
            left -= rooms[section.section]
        return rooms


def parse_recipe(text: str) -> PromptRecipe:
    """The recipe in a YAML text; raises `RecipeError`."""
    try:
        recipe = msgspec.convert(yaml.safe_load(text), PromptRecipe)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise RecipeError(f"recipe: {error}") from error
    if sorted(each.section for each in recipe.sections) != sorted(Section):
        raise RecipeError(
            f"recipe {recipe.name}: sections must be each of {[*Section]} once, "
            f"got {[each.section.value for each in recipe.sections]}"
        )
    return recipe


def read_default_recipe() -> PromptRecipe:
    """The recipe that is shipped, `default@1`."""
    source = resources.files("orchestrator.prompt") / "recipes" / "default@1.yaml"
    return parse_recipe(source.read_text("utf-8"))
