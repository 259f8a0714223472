"""How well the prompts of each recipe reuse what came before them.

Counters of tokens rather than ratios, so that any span of time and any set of workers can be summed
up: shared over `prompt` less `first` is what typing kept, cached over `prompt` what the engine
reused.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from orchestrator.record.request_record import RequestRecord

_KINDS = ("prompt", "stable", "shared", "first", "cached")


class RecipeMetrics:
    """Counters with the recipe's name as a label: names that an administrator gave."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tokens = Counter(
            "warmline_recipe_tokens", "Prompt tokens by recipe and kind.", ("recipe", "kind"),
            registry=registry,
        )  # fmt: skip
        self._changes = Counter(
            "warmline_recipe_snippet_changes", "Prompts whose snippets broke the warm prefix.",
            ("recipe", "reason"), registry=registry,
        )  # fmt: skip
        # Looking a label up takes longer than counting.
        self._by_recipe: dict[str, tuple[Counter, ...]] = {}

    def write(self, record: RequestRecord) -> None:
        """Counts one request that got as far as a prompt."""
        if not record.recipe:
            return
        tokens, shared = record.usage.prompt_tokens, record.prompt_shared_with_previous
        counted = (
            tokens,
            record.prompt_stable_tokens,
            shared or 0,
            tokens if shared is None else 0,
            record.usage.cached_tokens or 0,
        )
        for counter, amount in zip(self._counters(record.recipe), counted, strict=True):
            if amount:
                counter.inc(amount)
        if record.snippet_change is not None:
            self._changes.labels(record.recipe, record.snippet_change).inc()

    def _counters(self, recipe: str) -> tuple[Counter, ...]:
        known = self._by_recipe.get(recipe)
        if known is None:
            known = tuple(self._tokens.labels(recipe, kind) for kind in _KINDS)
            self._by_recipe[recipe] = known
        return known
