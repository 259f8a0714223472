import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.stack.answer import (
    GREY,
    PLAIN,
    PREFIX_CHARACTERS_MAX,
    Place,
    cut,
    parse_place,
    request_body,
    show,
)
from scripts.stack.errors import StackError

ANSWER = {
    "suggestion": "return a + b",
    "outcome": "shown_candidate",
    "reason": None,
    "mode": "line",
    "model": "fim-fast@sha256:00",
    "usage": {"prompt_tokens": 812, "cached_tokens": 800, "completion_tokens": 9},
    "timings_ms": {"total": 41.0, "queue": 0.8, "prefill": 4.9, "decode": 29.0},
}


def test_a_place_counts_line_and_column_from_one() -> None:
    assert parse_place("src/app.py:12:5") == Place("src/app.py", 12, 5)


def test_a_file_name_may_hold_colons() -> None:
    assert parse_place("a:1:2:3").file == "a:1"


@pytest.mark.parametrize(
    "text", ["app.py", "app.py:1", "app.py:0:1", "app.py:1:x", ":1:1", "a:1:²"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(StackError, match="FILE:LINE:COLUMN"):
        parse_place(text)


def test_the_document_is_cut_at_the_cursor() -> None:
    document = cut("one\ntwo three\nfour", Place("f", 2, 5))
    assert (document.prefix, document.suffix) == ("one\ntwo ", "three\nfour")
    assert (document.line_before, document.line_after) == ("two ", "three")


@given(st.text("ab\n", max_size=60), st.data())
def test_prefix_and_suffix_are_the_whole_text_wherever_the_cursor_is(
    text: str, data: st.DataObject
) -> None:
    lines = text.split("\n")
    line = data.draw(st.integers(1, len(lines)))
    column = data.draw(st.integers(1, len(lines[line - 1]) + 1))
    document = cut(text, Place("f", line, column))
    assert document.prefix + document.suffix == text
    assert document.line_before + document.line_after == lines[line - 1]


def test_a_line_beyond_the_end_is_refused_with_the_actual_length() -> None:
    with pytest.raises(StackError, match="f has 2 lines; line 3 was asked for"):
        cut("one\ntwo", Place("f", 3, 1))


def test_a_column_beyond_the_end_is_refused_with_the_actual_length() -> None:
    with pytest.raises(StackError, match="Line 1 of f has 3 characters; column 5"):
        cut("one\ntwo", Place("f", 1, 5))


def test_the_column_after_the_last_character_is_the_end_of_the_line() -> None:
    assert cut("one\r\ntwo", Place("f", 1, 4)).suffix == "\r\ntwo"


def test_a_long_prefix_starts_at_a_line_and_says_at_which() -> None:
    text = "0123456789\n" * 20_000
    document = cut(text, Place("f", 20_000, 1))
    assert len(document.prefix) <= PREFIX_CHARACTERS_MAX
    assert document.prefix.startswith("0123456789\n")
    assert text.split("\n")[document.prefix_start_line :][0] == "0123456789"
    assert document.prefix.count("\n") + document.prefix_start_line == 19_999


def test_one_endless_line_is_cut_all_the_same() -> None:
    document = cut("x" * 200_000, Place("f", 1, 150_001))
    assert len(document.prefix) == PREFIX_CHARACTERS_MAX
    assert document.prefix_start_line == 0


def test_the_request_names_the_language_and_asks_for_the_mode() -> None:
    place = Place("src/app.py", 1, 2)
    body = json.loads(request_body(place, cut("xy", place), "block", 300, "me"))
    assert body["document"]["language"] == "python"
    assert (body["mode"], body["deadline_ms"]) == ("block", 300)
    assert (body["document"]["prefix"], body["document"]["suffix"]) == ("x", "y")


def test_without_a_deadline_the_stack_decides() -> None:
    place = Place("a.py", 1, 1)
    assert "deadline_ms" not in json.loads(request_body(place, cut("", place), "auto", None, "me"))


def test_on_a_terminal_only_the_suggestion_is_grey() -> None:
    document = cut("    \nend", Place("f", 1, 5))
    first = show(document, ANSWER, coloured=True).split("\n")[0]
    assert first == f"    {GREY}return a + b{PLAIN}"


def test_each_line_of_a_block_is_grey_on_its_own() -> None:
    shown = show(cut("", Place("f", 1, 1)), {**ANSWER, "suggestion": "a\nb"}, coloured=True)
    assert shown.startswith(f"{GREY}a{PLAIN}\n{GREY}b{PLAIN}")


def test_without_colour_no_escape_is_printed_and_the_suggestion_stands_by_itself() -> None:
    shown = show(cut("x", Place("f", 1, 2)), ANSWER, coloured=False)
    assert "\x1b" not in shown
    assert 'suggestion  "return a + b"' in shown


def test_cached_and_computed_prompt_tokens_and_every_stage_are_shown() -> None:
    shown = show(cut("", Place("f", 1, 1)), ANSWER, coloured=False)
    assert "prompt 812: 800 cached, 12 computed; completion 9" in shown
    assert "total 41.0: queue 0.8, prefill 4.9, decode 29.0" in shown


def test_no_suggestion_says_why() -> None:
    answer = {**ANSWER, "suggestion": "", "outcome": "refused", "reason": "no_capacity"}
    shown = show(cut("", Place("f", 1, 1)), answer, coloured=True)
    assert "nothing suggested: refused (no_capacity), the stack refused" in shown


def test_an_outcome_that_this_script_does_not_know_is_shown_as_it_is() -> None:
    answer = {**ANSWER, "suggestion": "", "outcome": "postponed"}
    assert "nothing suggested: postponed" in show(cut("", Place("f", 1, 1)), answer, coloured=True)
