"""Composition as properties: nothing raises, budgets hold, typing keeps the stable segment."""

from __future__ import annotations

import argparse
import inspect
from array import array
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.prompt.compose import compose
from orchestrator.prompt.engine_manifest import FimFamily, FimTemplate
from orchestrator.prompt.line_cuts import CutStyle
from orchestrator.prompt.parts import Dropped, DropReason, FimPrompt, PromptParts
from orchestrator.prompt.recipe import Section, layout_of
from orchestrator.prompt.recipe_documents import DEFAULT_RECIPE, read_recipe
from orchestrator.prompt.segments import SegmentTable
from orchestrator.request import Snippet, SnippetKind
from tests.support.orchestrator import prompt_engine, text_of, tokenizer

SUFFIX_FIRST = FimTemplate(FimFamily.SUFFIX_FIRST, 1, 3, 2, 6)
PREFIX_FIRST = FimTemplate(FimFamily.PREFIX_FIRST, 1, 3, 2, 6)
SOURCE = inspect.getsource(argparse)

LINES = st.text(alphabet=st.sampled_from("ab =(:\t é\U0001f600{}#\r"), max_size=30)
CODE = st.lists(LINES, max_size=60).map("\n".join)
ANY_TEXT = st.text(alphabet=st.characters(), max_size=300)
TEXTS = st.one_of(CODE, ANY_TEXT)
TEMPLATES = st.sampled_from([SUFFIX_FIRST, PREFIX_FIRST])
STARTS = st.one_of(st.none(), st.integers(0, 1000))
STYLES = st.sampled_from(list(CutStyle))


def composed(parts: PromptParts, **changes: Any) -> FimPrompt:
    encode = tokenizer().encode
    layout = layout_of(
        read_recipe(DEFAULT_RECIPE),
        changes.pop("template", SUFFIX_FIRST),
        changes.pop("budget_tokens", 1336),
    )
    fields = {
        "layout": layout,
        "style": CutStyle.BEFORE_WHITESPACE,
        "encode": encode,
        "encode_tail": encode,
    }
    return compose(parts, **fields | changes)


def split_prompt(prompt: FimPrompt) -> tuple[str, str]:
    """Prefix and suffix text of a suffix-first prompt."""
    ids = list(prompt.token_ids)
    suffix_at, prefix_at = ids.index(3), ids.index(1)
    return text_of(ids[prefix_at + 1 : -1]), text_of(ids[suffix_at + 1 : prefix_at])


PARTS = st.builds(
    lambda prefix, suffix, path, start: PromptParts(
        prefix, suffix, path, start, (Snippet(SnippetKind.OPEN_TAB, suffix, path),) * 2
    ),
    TEXTS,
    TEXTS,
    ANY_TEXT,
    STARTS,
)


@settings(max_examples=300)
@given(PARTS, TEMPLATES, STYLES, st.integers(160, 1336))
@example(PromptParts("", ""), SUFFIX_FIRST, CutStyle.BEFORE_WHITESPACE, 160)
@example(PromptParts("x" * 200_000, "y" * 200_000), SUFFIX_FIRST, CutStyle.AFTER_NEWLINE, 160)
@example(PromptParts("\n" * 5000, "\n" * 5000, "", 3), PREFIX_FIRST, CutStyle.AFTER_NEWLINE, 200)
@example(PromptParts("\U0001f600" * 5000, "\r\n" * 5000), SUFFIX_FIRST, CutStyle.AFTER_NEWLINE, 200)
def test_any_text_composes_within_the_budget(
    parts: PromptParts, template: FimTemplate, style: CutStyle, budget: int
) -> None:
    prompt = composed(parts, template=template, style=style, budget_tokens=budget)
    assert len(prompt.token_ids) <= budget
    assert 0 < prompt.stable_tokens <= len(prompt.token_ids)
    ids = list(prompt.token_ids)
    assert [ids.count(marker) for marker in (1, 2, 3)] == [1, 1, 1]
    assert ids[-1] == 2


@given(CODE, CODE, STARTS, STYLES)
def test_the_line_of_the_cursor_is_never_dropped(
    prefix: str, suffix: str, start: int | None, style: CutStyle
) -> None:
    prompt = composed(PromptParts(prefix, suffix, "a.py", start), style=style, budget_tokens=200)
    line = prefix.rpartition("\n")[2]
    kept, _ = split_prompt(prompt)
    assert kept.endswith(line)
    assert prefix.endswith(kept)


def test_of_a_line_longer_than_the_room_its_end_is_kept_and_stays_while_it_grows() -> None:
    line = "".join(f"value_{number}, " for number in range(40_000))
    starts = set()
    for grown in range(200):
        kept, _ = split_prompt(composed(PromptParts(line + "x" * grown, "", "a.py")))
        assert (line + "x" * grown).endswith(kept)
        assert len(kept) > 1000
        starts.add(len(line) + grown - len(kept))
    assert len(starts) == 1


@settings(max_examples=60)
@given(
    st.integers(0, 60_000),
    st.text(alphabet="abc_(.= ", min_size=1, max_size=40),
    st.booleans(),
    TEMPLATES,
)
def test_typing_on_a_line_keeps_every_stable_token(
    cursor: int, typed: str, numbered: bool, template: FimTemplate
) -> None:
    start = 0 if numbered else None
    before, after = SOURCE[:cursor], SOURCE[cursor:]
    first = composed(PromptParts(before, after, "a.py", start), template=template)
    for length in range(1, len(typed) + 1):
        parts = PromptParts(before + typed[:length], after, "a.py", start)
        prompt = composed(parts, template=template)
        if len(prompt.token_ids) - prompt.stable_tokens < 60:
            assert prompt.token_ids[: first.stable_tokens] == first.token_ids[: first.stable_tokens]
            assert prompt.stable_tokens == first.stable_tokens


@pytest.mark.parametrize("numbered", [True, False])
def test_a_clients_sliding_window_rarely_moves_the_start(numbered: bool) -> None:
    """Typing 60 lines into a file, the client always sending the last 250 lines."""
    lines = SOURCE.splitlines(keepends=True)
    starts = set()
    for cursor in range(600, 660):
        window = "".join(lines[cursor - 250 : cursor])
        parts = PromptParts(window, "", "a.py", cursor - 250 if numbered else None)
        kept, _ = split_prompt(composed(parts))
        starts.add(kept[:200])
    assert len(starts) <= (4 if numbered else 6)


def test_a_numbered_window_starts_at_a_32nd_line_of_the_file() -> None:
    lines = SOURCE.splitlines(keepends=True)
    for cursor in (317, 318, 330, 349):
        kept, _ = split_prompt(composed(PromptParts("".join(lines[:cursor]), "", "a.py", 0)))
        first = SOURCE[: SOURCE.index(kept)].count("\n")
        assert first % 32 == 0
        assert first > 0


def test_the_tokens_of_a_piecewise_prompt_are_those_of_the_whole_text() -> None:
    prefix = SOURCE[: SOURCE.index("def __init__")] + "def __init__(self"
    prompt = composed(PromptParts(prefix, "", "", 0))
    kept, _ = split_prompt(prompt)
    ids = list(prompt.token_ids)
    assert ids[ids.index(1) + 1 : -1] == list(tokenizer().encode(kept))


def test_a_short_file_is_kept_whole() -> None:
    prefix, suffix = "import os\n\n\ndef f(a):\n    return ", "\n\nprint(f(1))\n"
    prompt = composed(PromptParts(prefix, suffix, "src/a.py", 0))
    assert split_prompt(prompt) == (prefix, suffix)
    assert text_of(prompt.token_ids) == (
        f"<|file_sep|>src/a.py\n<|fim_suffix|>{suffix}<|fim_prefix|>{prefix}<|fim_middle|>"
    )
    assert prompt.dropped == ()


def test_prefix_first_puts_the_suffix_behind_the_cursor() -> None:
    prompt = composed(PromptParts("a\nb", "c", "p", 0), template=PREFIX_FIRST)
    assert text_of(prompt.token_ids) == (
        "<|file_sep|>p\n<|fim_prefix|>a\nb<|fim_suffix|>c<|fim_middle|>"
    )
    assert text_of(prompt.token_ids[: prompt.stable_tokens]) == "<|file_sep|>p\n<|fim_prefix|>a"


def test_a_long_suffix_ends_at_a_line() -> None:
    _, suffix = split_prompt(composed(PromptParts("x = ", SOURCE, "a.py", 0)))
    assert SOURCE.startswith(suffix)
    assert suffix.endswith("\n")
    assert len(tokenizer().encode(suffix)) > 250


def test_a_repeated_snippet_appears_once_and_is_counted() -> None:
    snippet = Snippet(SnippetKind.OPEN_TAB, "y = 1", "b.py")
    prompt = composed(PromptParts("x = ", "", "a.py", 0, (snippet, snippet)))
    assert text_of(prompt.token_ids).count("y = 1") == 1
    assert prompt.dropped == (Dropped(Section.SNIPPETS, DropReason.DUPLICATE),)


def test_a_model_without_file_markers_gets_no_snippets_and_no_header() -> None:
    bare = FimTemplate(FimFamily.SUFFIX_FIRST, 1, 3, 2)
    snippet = Snippet(SnippetKind.OPEN_TAB, "y = 1", "b.py")
    prompt = composed(PromptParts("x = ", "", "a.py", 0, (snippet,)), template=bare)
    assert text_of(prompt.token_ids) == "<|fim_suffix|><|fim_prefix|>x = <|fim_middle|>"
    assert prompt.dropped == (Dropped(Section.SNIPPETS, DropReason.NO_MARKER),)


def test_of_a_path_that_is_too_long_the_end_is_kept() -> None:
    prompt = composed(PromptParts("x", "", "folder/" * 300 + "a.py", 0))
    assert text_of(prompt.token_ids).startswith("<|file_sep|>folder/")
    assert "folder/a.py\n" in text_of(prompt.token_ids)


def test_the_table_of_segments_changes_no_token_and_saves_the_encoding() -> None:
    engine, calls = prompt_engine(), []
    parts = PromptParts(SOURCE[:9000], SOURCE[9000:], "a.py", 0)

    def counted(text: str) -> array[int]:
        calls.append(len(text))
        return tokenizer().encode(text)

    table = SegmentTable()
    cached = table.of(b"salt").encoder(counted)
    first = composed(parts, encode=cached)
    cold = sum(calls)
    again = composed(parts, encode=cached)
    assert first == again == engine.compose(parts, b"salt")
    assert cold > 3000
    assert sum(calls) - cold < 64


def test_one_partition_never_saves_time_for_another() -> None:
    calls: list[str] = []

    def counted(text: str) -> array[int]:
        calls.append(text)
        return tokenizer().encode(text)

    table = SegmentTable()
    for partition in (b"one", b"two"):
        table.of(partition).encoder(counted)("x = 1\n" * 10)
    assert len(calls) == 2


def test_the_table_forgets_the_oldest_first() -> None:
    calls: list[str] = []

    def counted(text: str) -> array[int]:
        calls.append(text)
        return array("i", [0] * 10)

    encode = SegmentTable(tokens_max=84).of(b"salt").encoder(counted)
    for text in ("a" * 40, "b" * 40, "a" * 40, "c" * 40, "a" * 40, "b" * 40):
        encode(text)
    assert [text[0] for text in calls] == ["a", "b", "c", "b"]


def test_room_for_the_answer_is_what_the_context_leaves() -> None:
    engine = prompt_engine()
    prompt = engine.compose(PromptParts(SOURCE, SOURCE, "a.py", 0), b"salt")
    assert engine.budget_tokens == 1536 - 8 - 192
    assert engine.room_for_answer(prompt) >= 192


def test_a_family_that_begins_with_a_token_of_its_own_gets_it_first() -> None:
    template = FimTemplate(FimFamily.PREFIX_FIRST, 1, 3, 2, begin_id=5)
    ids = list(composed(PromptParts("a = ", "\n", "a.py"), template=template).token_ids)
    assert ids[:2] == [5, 1]
    assert ids.count(5) == 1


def test_a_family_without_a_middle_marker_ends_with_the_prefix() -> None:
    template = FimTemplate(FimFamily.SUFFIX_FIRST, 1, 3, None)
    ids = list(composed(PromptParts("a = ", "\n"), template=template).token_ids)
    assert text_of(ids[ids.index(1) + 1 :]) == "a = "
