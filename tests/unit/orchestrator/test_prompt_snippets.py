"""Snippets: which are chosen, and that typing within a region chooses no others."""

from __future__ import annotations

import argparse
import inspect
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.prompt.engine_manifest import FimFamily, FimTemplate
from orchestrator.prompt.parts import Dropped, DropReason, FimPrompt, PromptParts, Segment
from orchestrator.prompt.recipe import Section
from orchestrator.prompt.recipe_documents import read_recipe
from orchestrator.prompt.snippet_query import query_of
from orchestrator.prompt.snippets import overlap, ranked, snippet_section
from orchestrator.request import Snippet, SnippetKind
from tests.support.orchestrator import prompt_engine, text_of, tokenizer

SOURCE = inspect.getsource(argparse)
LINES = SOURCE.splitlines(keepends=True)
BODY = "".join(f"    value_{number} = compute(value_{number - 1})\n" for number in range(1, 60))


def snippet(text: str, path: str = "b.py") -> Snippet:
    return Snippet(SnippetKind.OPEN_TAB, text, path)


def windows(count: int) -> tuple[Snippet, ...]:
    """Pieces of a real module under different paths."""
    return tuple(
        snippet("".join(LINES[at : at + 12]), f"{number}.py")
        for number, at in enumerate(range(100, 100 + 90 * count, 90))
    )


def composed(prefix: str, snippets: tuple[Snippet, ...], region: str = "") -> FimPrompt:
    parts = PromptParts(prefix, "\n", "a.py", 0, snippets, region)
    return prompt_engine().compose(parts, b"salt")


def section(*snippets: Snippet, query: str = "", room: int = 267) -> Segment:
    return snippet_section(
        snippets,
        query,
        separator_id=6,
        room=room,
        encode=tokenizer().encode,
        remember=lambda _key, make: make(),
    )


def query(prefix: str, first_line: int | None = 0, *, in_region: bool = False) -> str:
    return query_of(prefix, first_line, in_region=in_region, query_lines=20, refresh_lines=32)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("abc def", "abc def", 1.0),
        ("abc def", "abc ghi", 1 / 3),
        ("abc", "def", 0.0),
        ("", "", 0.0),
    ],
)
def test_overlap_is_the_share_of_identifiers_that_both_have(
    ours: str, theirs: str, expected: float
) -> None:
    assert overlap(frozenset(ours.split()), frozenset(theirs.split())) == expected


def test_snippets_with_more_of_the_lines_names_rank_higher() -> None:
    near, far = snippet("def parse(tokens, grammar): ..."), snippet("def draw(canvas): ...")
    assert ranked([far, near], "grammar = load()\nparse(grammar)", 267) == [near, far]


def test_without_a_line_to_go_by_the_clients_order_stands() -> None:
    one, two = snippet("alpha = 1"), snippet("beta = 2")
    assert ranked([two, one], "", 267) == [two, one]


def test_where_room_is_short_the_best_is_kept_and_the_rest_is_counted() -> None:
    near = snippet("parse grammar tokens " * 12, "z.py")
    far = snippet("draw canvas colour " * 40, "a.py")
    made = section(far, near, query="parse(grammar, tokens)", room=70)
    assert "grammar" in text_of(made.token_ids)
    assert "canvas" not in text_of(made.token_ids)
    assert Dropped(Section.SNIPPETS, DropReason.NO_ROOM) in made.dropped
    assert len(made.token_ids) <= 70


def test_chosen_snippets_stand_in_the_order_of_their_paths_whatever_the_rank() -> None:
    one, two = snippet("alpha_name = 1", "one.py"), snippet("beta_name = 2", "two.py")
    orders = {
        tuple(section(*sent, query=asked).token_ids)
        for sent in ((one, two), (two, one))
        for asked in ("alpha_name", "beta_name", "")
    }
    assert len(orders) == 1


@pytest.mark.parametrize(
    ("texts", "kept", "reason"),
    [
        (("long_name = 1", "long_name = 1"), 1, DropReason.DUPLICATE),
        (("long_name = 1", "\nlong_name = 1\n"), 1, DropReason.DUPLICATE),
        (("long_name", "x = long_name + 1"), 1, DropReason.DUPLICATE),
        (("long_name = 1", " \n"), 1, DropReason.EMPTY),
    ],
)
def test_a_text_appears_once(texts: tuple[str, ...], kept: int, reason: DropReason) -> None:
    made = section(*(snippet(text, f"{number}.py") for number, text in enumerate(texts)))
    assert text_of(made.token_ids).count("long_name") == kept
    assert made.dropped == (Dropped(Section.SNIPPETS, reason),)


@settings(max_examples=40)
@given(st.integers(0, len(LINES) - 1), st.booleans(), st.sampled_from(["", "region"]))
def test_typing_on_a_line_chooses_no_other_snippets(line: int, numbered: bool, region: str) -> None:
    start = 0 if numbered else None
    before, typed = "".join(LINES[:line]), "    new_value = call("
    sections = {
        tuple(
            prompt_engine()
            .compose(
                PromptParts(before + typed[:end], "\n", "a.py", start, windows(8), region), b"salt"
            )
            .snippets.token_ids
        )
        for end in range(len(typed) + 1)
    }
    assert len(sections) == 1


def test_writing_a_function_within_a_region_chooses_no_other_snippets_until_the_schedule() -> None:
    """The same text typed line by line: one choice for 32 lines, then one refresh."""
    head = "".join(LINES[:417]) + "def compute_all(first):\n"
    queries = []
    for lines in range(1, 50):
        body = "".join(BODY.splitlines(keepends=True)[:lines])
        queries.append(query(head + body, in_region=True))
    assert queries[0].endswith("def compute_all(first):\n")
    assert len(set(queries)) == 2
    assert queries.index(queries[-1]) == 31


def test_without_a_region_the_choice_follows_the_files_32nd_lines() -> None:
    asked = [query("".join(LINES[:line])) for line in range(320, 400)]
    assert {asked.index(each) + 320 for each in asked} == {320, 352, 384}
    assert asked[5] == "".join(LINES[300:320])


def test_a_clients_sliding_window_does_not_move_the_choice() -> None:
    asked = {query("".join(LINES[start:350]), start) for start in range(200, 290)}
    assert len(asked) == 1
    unnumbered = {query("".join(LINES[start:350]), None) for start in range(100, 200)}
    assert len(unnumbered) == 1


def test_moving_into_another_function_chooses_anew_within_a_region() -> None:
    starts = [number for number, line in enumerate(LINES) if line.startswith("    def ")]
    asked = {query("".join(LINES[: start + 2]), in_region=True) for start in starts[:10]}
    assert len(asked) == 10


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("def f(a):", True),
        ("    async def f(a):", True),
        ("export default class A {", True),
        ("pub fn parse(input: &str) -> Tree {", True),
        ("func (s *Server) Run() error {", True),
        ("  public List<String> names(int limit) {", True),
        ("  render(props) {", True),
        ("    if (a) {", False),
        ("  } else if (b) {", False),
        ("    return define(a)", False),
        ("x = classify(y)", False),
        ("for (int i = 0; i < n; i++) {", False),
    ],
)
def test_a_definition_is_known_by_its_line(line: str, *, found: bool) -> None:
    filler = "x = 1\n" * 5
    asked = query(f"{filler}{line}\n    body = 1\n    more", in_region=True)
    assert asked.endswith(f"{line}\n") is found


def test_the_table_changes_no_token_of_the_section() -> None:
    engine = prompt_engine()
    parts = PromptParts(SOURCE[:9000], "", "a.py", 0, windows(6))
    first, again = (engine.compose(parts, b"salt") for _ in range(2))
    assert first == again == prompt_engine().compose(parts, b"salt")
    assert first.snippets.token_ids is again.snippets.token_ids


def test_the_whole_section_leads_the_prompt_and_fits_its_share() -> None:
    prompt = composed(SOURCE[:9000], windows(20))
    ids = prompt.snippets.token_ids
    assert prompt.token_ids[: len(ids)] == ids
    assert len(ids) <= 0.2 * 1336
    assert prompt.stable_tokens > len(ids)


def test_volatile_recipes_rank_against_the_lines_right_before_the_cursor() -> None:
    engine = prompt_engine(read_recipe("volatile@1"))
    prefix = "".join(LINES[:350]) + "typed"
    prompt = engine.compose(PromptParts(prefix, "", "a.py", 0, windows(2)), b"salt")
    assert prompt.snippet_query == "".join(LINES[331:350]) + "typed"


def test_a_model_without_file_markers_says_why_it_gets_no_snippets() -> None:
    bare = FimTemplate(FimFamily.SUFFIX_FIRST, 1, 3, 2)
    parts = PromptParts("x", "", "a.py", 0, windows(2))
    prompt = prompt_engine(fim=bare).compose(parts, b"salt")
    assert prompt.snippets == Segment(
        array("i"), (Dropped(Section.SNIPPETS, DropReason.NO_MARKER),) * 2
    )
