"""The chain: rules in their order, in one place."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.postprocess.rules import (
    cut_at_control_token,
    cut_at_newline,
    cut_overlap_with_rest_of_line,
    cut_trailing_whitespace,
    drop_whitespace_only,
)
from orchestrator.postprocess.verdict import Context, Dropped, FilterVerdict, Kept, Rule

CHAIN: tuple[Rule, ...] = (
    cut_at_control_token,
    cut_at_newline,
    cut_trailing_whitespace,
    cut_overlap_with_rest_of_line,
    drop_whitespace_only,
)


class Chain:
    """Runs rules one after another until one drops the text."""

    def __init__(self, rules: Sequence[Rule] = CHAIN) -> None:
        self._rules = tuple(rules)

    def run(self, text: str, context: Context) -> FilterVerdict:
        """The text that may be shown, or who dropped it."""
        for rule in self._rules:
            verdict = rule(text, context)
            if isinstance(verdict, Dropped):
                return verdict
            text = verdict.text
        return Kept(text)
