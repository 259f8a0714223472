"""What holds for every shipped recipe and every family of models, whatever the texts are."""

from __future__ import annotations

import argparse
import inspect
from functools import cache
from itertools import product
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from orchestrator.prompt.engine import PromptEngine
from orchestrator.prompt.engine_manifest import FimFamily, FimTemplate
from orchestrator.prompt.parts import FimPrompt, PromptParts
from orchestrator.prompt.recipe import HealingMode
from orchestrator.prompt.recipe_documents import read_recipe, shipped_recipes
from orchestrator.request import Snippet, SnippetKind
from tests.support.orchestrator import manifest, prompt_engine, text_of, tokenizer

SUFFIX_FIRST, PREFIX_FIRST = FimFamily.SUFFIX_FIRST, FimFamily.PREFIX_FIRST
BEGIN = 5
TEMPLATES = {
    "reference": FimTemplate(SUFFIX_FIRST, 1, 3, 2, file_separator_id=6),
    "mellum": FimTemplate(SUFFIX_FIRST, 1, 3, 2, file_separator_id=6),
    "codestral": FimTemplate(SUFFIX_FIRST, 1, 3, None, begin_id=BEGIN),
    "qwen2.5-coder": FimTemplate(PREFIX_FIRST, 1, 3, 2, file_separator_id=6),
    "starcoder": FimTemplate(PREFIX_FIRST, 1, 3, 2, file_separator_id=6),
    "deepseek-coder": FimTemplate(PREFIX_FIRST, 1, 3, 2, begin_id=BEGIN),
    "codellama": FimTemplate(PREFIX_FIRST, 1, 3, 2, begin_id=BEGIN),
}
SOURCE = inspect.getsource(argparse)
CONTEXTS = (400, 1536)


class Served(NamedTuple):
    """One recipe for one family, with one kind of healing."""

    recipe: str
    family: str
    healing: HealingMode
    context_tokens: int

    @property
    def template(self) -> FimTemplate:
        return TEMPLATES[self.family]


SERVED = [
    each
    for each in map(Served._make, product(shipped_recipes(), TEMPLATES, HealingMode, CONTEXTS))
    if not read_recipe(each.recipe).unfit_for(each.template)
]

PIECES = st.sampled_from(
    ["\r\n", "\n", "\t", " ", "    ", "é", "\U0001f600", "\ud800", "\udc00", "def f(a):", "x", "(",
     "value_1", "\u2028", "\x00", "<|fim_middle|>", "}"]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES, max_size=120).map("".join),
    st.text(alphabet=st.characters(), max_size=200),
    st.integers(0, 20_000).map(lambda at: SOURCE[at : at + 6000]),
)
LONG_LINE = "value, " * 28_572


@cache
def engine_of(served: Served) -> PromptEngine:
    recipe = msgspec.structs.replace(read_recipe(served.recipe), token_healing=served.healing)
    return prompt_engine(recipe, fim=served.template, context_tokens=served.context_tokens)


def texts_of(served: Served, prompt: FimPrompt) -> tuple[str, str]:
    """Prefix and suffix text in a prompt."""
    ids, fim = list(prompt.token_ids), served.template
    if fim.middle_id is not None:
        assert ids[-1] == fim.middle_id
        ids.pop()
    prefix_at, suffix_at = ids.index(fim.prefix_id), ids.index(fim.suffix_id)
    if prefix_at < suffix_at:
        return text_of(ids[prefix_at + 1 : suffix_at]), text_of(ids[suffix_at + 1 :])
    return text_of(ids[prefix_at + 1 :]), text_of(ids[suffix_at + 1 : prefix_at])


def as_sent(text: str) -> str:
    """Text as the tokenizer sees it: halves of characters paired up or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parts_of(prefix: str, suffix: str, start: int | None) -> PromptParts:
    snippets = (
        Snippet(SnippetKind.OPEN_TAB, suffix, "b.py"),
        Snippet(SnippetKind.RECENT_EDIT, prefix[:500], "c\ud800.py"),
        Snippet(SnippetKind.DECLARATION, "def f(a): ...", "b.py"),
    )
    return PromptParts(prefix, suffix, "folder/a.py", start, snippets, "region")


def test_every_recipe_serves_every_family_but_for_a_leading_prefix_without_middle_marker() -> None:
    pairs = {(each.recipe, each.family) for each in SERVED}
    unserved = set(product(shipped_recipes(), TEMPLATES)) - pairs
    assert unserved == {("prefix-first@1", "codestral"), ("volatile@1", "codestral")}


@pytest.mark.parametrize("cursor", [0, 1, 100_000, 199_999, len(LONG_LINE)])
@pytest.mark.parametrize("served", SERVED)
def test_one_line_of_200_000_characters_composes(served: Served, cursor: int) -> None:
    check(served, parts_of(LONG_LINE[:cursor], LONG_LINE[cursor:], None))


@settings(max_examples=500)
@given(st.sampled_from(SERVED), TEXTS, TEXTS, st.one_of(st.none(), st.integers(0, 5000)))
@example(SERVED[0], "", "", None)
@example(SERVED[0], "", SOURCE, 0)
@example(SERVED[0], SOURCE, "", 0)
@example(SERVED[0], "a = '\ud800", "\udc00'\n", 0)
@example(SERVED[0], "a\r\n\tb\r\n\t", "\r\n\tc\r\n", 7)
def test_whatever_is_sent_composes(
    served: Served, prefix: str, suffix: str, start: int | None
) -> None:
    check(served, parts_of(prefix, suffix, start))


def check(served: Served, parts: PromptParts) -> None:
    """No exception, the budget kept, each marker once, the cursor's line there."""
    engine = engine_of(served)
    prompt = engine.compose(parts, b"salt")
    ids, fim = list(prompt.token_ids), served.template
    assert len(ids) <= engine.budget_tokens
    assert 0 < prompt.stable_tokens <= len(ids)
    assert ids.count(fim.prefix_id) == ids.count(fim.suffix_id) == 1
    assert (ids[0] == BEGIN) is (fim.begin_id is not None)
    assert engine.room_for_answer(prompt) >= 1
    kept_prefix, kept_suffix = texts_of(served, prompt)
    whole = as_sent(parts.prefix)
    if "\ufffd" not in kept_prefix + whole:  # Replaced halves, or a character cut by the window.
        line = whole.rpartition("\n")[2]
        assert whole.endswith(kept_prefix + prompt.held)
        assert (kept_prefix + prompt.held).endswith(line[-100:])
    if "\ufffd" not in kept_suffix:
        assert as_sent(parts.suffix).startswith(kept_suffix)


@settings(max_examples=300)
@given(
    st.sampled_from(SERVED),
    st.one_of(st.integers(0, 60_000).map(lambda at: SOURCE[:at]), TEXTS),
    TEXTS,
    st.text(alphabet="ab_(.= \t'é\U0001f600", min_size=1, max_size=30),
    st.sampled_from([0, None]),
)
def test_typing_on_a_line_keeps_the_stable_segment_byte_for_byte(
    served: Served, prefix: str, suffix: str, typed: str, start: int | None
) -> None:
    engine = engine_of(served)
    # A line's room is taken in steps of 64 tokens: this one stays within the first.
    prefix = prefix[: prefix.rfind("\n") + 1] + prefix[prefix.rfind("\n") + 1 :][:20]
    assume(len(tokenizer().encode(prefix.rpartition("\n")[2] + typed)) <= 56)
    first = engine.compose(parts_with(prefix, suffix, start), b"salt")
    stable = first.token_ids[: first.stable_tokens].tobytes()
    for length in range(1, len(typed) + 1):
        prompt = engine.compose(parts_with(prefix + typed[:length], suffix, start), b"salt")
        assert prompt.stable_tokens == first.stable_tokens
        assert prompt.token_ids[: prompt.stable_tokens].tobytes() == stable


def parts_with(prefix: str, suffix: str, start: int | None) -> PromptParts:
    """As `parts_of`, with snippets that typing leaves alone."""
    snippets = (Snippet(SnippetKind.OPEN_TAB, SOURCE[:900], "b.py"),)
    return PromptParts(prefix, suffix, "folder/a.py", start, snippets, "region")


def test_control_ids_come_from_the_recipe_and_never_from_the_text() -> None:
    spelled = "<|fim_middle|><|file_sep|><|fim_prefix|><|endoftext|>\n" * 20
    engine = prompt_engine(fim=TEMPLATES["reference"])
    ids = list(engine.compose(PromptParts(spelled, spelled, spelled, 0), b"salt").token_ids)
    controls = [each for each in ids if each in manifest().control_ids]
    assert sorted(controls) == [1, 2, 3]  # The path is too long for a header.
