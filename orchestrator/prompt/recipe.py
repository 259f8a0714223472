"""Prompt recipes: versioned YAML documents that say what goes into a prompt and how much of it.

A recipe never names the cache salt, a model or a token id: those are the request's and the
manifest's. docs/recipes.md describes each key for those who write recipes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from orchestrator.prompt.engine_manifest import FimFamily, FimTemplate

SNAP_LINES_MAX = 1024

_MARKER_TOKENS = 4
"""Begin-of-text, prefix, suffix and middle marker, whether a family has them or not."""


class Section(StrEnum):
    """The parts of a prompt."""

    HEADER = "header"
    SNIPPETS = "snippets"
    SUFFIX = "suffix"
    PREFIX = "prefix"


class FimOrder(StrEnum):
    """Who decides which of suffix and prefix leads: the model's training, or the positions."""

    MODEL = "model"
    POSITION = "position"


class HealingMode(StrEnum):
    """What is held back where the cursor cuts a token; see `healing`."""

    OFF = "off"
    WHITESPACE = "whitespace"
    TOKEN = "token"  # noqa: S105 - a piece of text, no secret


class SectionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place and room of one section.

    Sections stand by ascending `position`. `share` is of the whole budget, `tokens_max` a window
    size in tokens; where shares do not fit together the lower `priority` yields, and a section left
    with fewer than `tokens_min` tokens is dropped. What others leave unused goes to the prefix.
    """

    section: Section
    position: int
    priority: int
    share: Annotated[float, Meta(gt=0, le=1)]
    tokens_min: Annotated[int, Meta(ge=0)] = 0
    tokens_max: Annotated[int, Meta(ge=1)] | None = None


class PrefixWindowRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines to which the window before the cursor snaps; 0: it is counted from the cursor."""

    snap_lines: Annotated[int, Meta(ge=0, le=SNAP_LINES_MAX)]


class SnippetRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Snippets are ranked against `query_lines` lines, and again each `refresh_lines` lines.

    `refresh_lines` 0 ranks at each keystroke.
    """

    query_lines: Annotated[int, Meta(ge=1, le=200)]
    refresh_lines: Annotated[int, Meta(ge=0, le=SNAP_LINES_MAX)]


class PromptRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One version of one recipe. `token_budget` counts the prompt, markers included."""

    recipe_version: Annotated[int, Meta(ge=1, le=1)]
    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]*@[1-9][0-9]*$")]
    families: Annotated[tuple[FimFamily, ...], Meta(min_length=1)]
    fim_order: FimOrder
    token_budget: Annotated[int, Meta(ge=64, le=32768)]
    token_healing: HealingMode
    prefix_window: PrefixWindowRule
    snippets: SnippetRule
    sections: tuple[SectionRule, ...]

    def rule(self, section: Section) -> SectionRule:
        """The rule of one section."""
        return next(each for each in self.sections if each.section is section)

    def rooms(self, budget_tokens: int) -> dict[Section, int]:
        """Tokens each section may take out of `budget_tokens`; 0 for one that is dropped."""
        rooms, left = {}, budget_tokens
        for rule in sorted(self.sections, key=lambda each: -each.priority):
            room = min(int(rule.share * budget_tokens), left, rule.tokens_max or left)
            rooms[rule.section] = room if room >= rule.tokens_min else 0
            left -= rooms[rule.section]
        return rooms

    def prefix_leads(self, template: FimTemplate) -> bool:
        """Whether the prefix stands before the suffix in prompts for this template."""
        if self.fim_order is FimOrder.MODEL:
            return template.family is FimFamily.PREFIX_FIRST
        return self.rule(Section.PREFIX).position < self.rule(Section.SUFFIX).position

    def unfit_for(self, template: FimTemplate) -> str:
        """Why no prompt can be made for this template; empty where one can."""
        if template.family not in self.families:
            return (
                f"recipe {self.name} is for engines of the family "
                f"{' or '.join(self.families)}, this one is {template.family}"
            )
        if self.prefix_leads(template) and template.middle_id is None:
            return (
                f"recipe {self.name} lets the prefix lead, which needs a middle marker, and this "
                "engine's template has none"
            )
        return ""


class Layout(msgspec.Struct, frozen=True):
    """What a recipe means for one engine; the same for all its prompts, so worked out once.

    `text_tokens` is the room for texts, markers taken off; `rooms` are the sections' parts of it.
    """

    recipe: PromptRecipe
    template: FimTemplate
    text_tokens: int
    rooms: dict[Section, int]
    prefix_tokens_max: int
    prefix_leads: bool


def layout_of(recipe: PromptRecipe, template: FimTemplate, budget_tokens: int) -> Layout:
    """The layout for prompts of at most `budget_tokens` tokens.

    The template must be one that the recipe is fit for.
    """
    text_tokens = budget_tokens - _MARKER_TOKENS
    return Layout(
        recipe,
        template,
        text_tokens,
        rooms=recipe.rooms(text_tokens),
        prefix_tokens_max=recipe.rule(Section.PREFIX).tokens_max or text_tokens,
        prefix_leads=recipe.prefix_leads(template),
    )
