"""Sessions write what was taken out of a file, and send what an editor would."""

import json
import random
from itertools import pairwise

import pytest

from scripts.benches.keystrokes import Kind, Moment
from scripts.benches.typing_sessions import (
    PREFIX_CHARS_MAX,
    SUFFIX_CHARS_MAX,
    TypingSession,
    gaps_of,
    sessions_in,
    window_start,
)
from scripts.benches.unseen_code import UnseenFile

FUNCTION = '''def name{number}(values, start=0):
    """Adds the values that are above zero to the start, one after the other."""
    for value in values:
        if value > 0:
            start += value
    return start
'''
TEXT = (
    "import sys\nimport math\nimport os\nfrom re import (\n    sub,\n)\n\n\nclass Adder:\n    "
    + FUNCTION.format(number=0).replace("\n", "\n    ")
    + "\n\n"
    + "\n\n".join(FUNCTION.format(number=number) for number in range(1, 35))
)


@pytest.fixture
def session() -> TypingSession:
    gaps = gaps_of(TEXT, random.Random(3))
    tabs = (UnseenFile("package/other.py", "import os\n"),)
    return TypingSession(
        "installation", "document", UnseenFile("package/a.py", TEXT), gaps, tabs, 5
    )


def test_an_import_and_two_functions_are_taken_out() -> None:
    for seed in range(20):
        place, *functions = gaps_of(TEXT, random.Random(seed))
        assert TEXT[place.start : place.end] in ("\nimport math", "\nimport os")
        assert len(functions) == 2
        for gap in functions:
            text = TEXT[gap.start : gap.end]
            assert text.startswith(f"def {gap.region}(")
            assert text.endswith("return start")
        assert place.end < functions[0].start
        assert functions[0].end < functions[1].start


@pytest.mark.parametrize(
    "text",
    [
        TEXT[:3_000],
        TEXT.replace("zero", "zéro"),
        TEXT + "def broken(:\n",
        TEXT.replace("import", "#"),
    ],
    ids=["short", "not ASCII", "no Python", "without imports"],
)
def test_a_file_that_does_not_serve_is_left_alone(text: str) -> None:
    assert gaps_of(text, random.Random(1)) == ()


def test_a_session_ends_with_the_file_as_it_was(session: TypingSession) -> None:
    *_, last = session.moments()
    assert last.before + last.after == TEXT


def test_a_session_starts_without_what_it_writes(session: TypingSession) -> None:
    first = next(iter(session.moments()))
    assert first.kind is Kind.OPENED
    left_out = sum(gap.end - gap.start for gap in session.gaps)
    assert len(first.before) + len(first.after) == len(TEXT) - left_out


def test_each_key_changes_one_place_and_counts_one_version(session: TypingSession) -> None:
    moments = list(session.moments())
    for earlier, later in pairwise(moments):
        moved = later.kind is Kind.JUMPED
        assert later.version == earlier.version + (not moved)
        assert later.at_ms > earlier.at_ms
        if moved:
            assert later.before + later.after == earlier.before + earlier.after
            assert later.before != earlier.before
        else:
            assert later.after == earlier.after


def test_the_cursor_goes_to_the_imports_and_back_in_the_first_function(
    session: TypingSession,
) -> None:
    regions: list[str] = []
    for each in session.moments():
        if not regions or regions[-1] != each.region:
            regions.append(each.region)
    place, first, second = (gap.region for gap in session.gaps)
    assert regions == [first, place, first, second]


def test_a_session_is_repeatable(session: TypingSession) -> None:
    first, second = (list(session.requests(150)) for _ in range(2))
    assert first == second
    assert 10 < len(first) < len(list(session.moments()))


def test_the_body_holds_the_window_and_says_where_it_begins(session: TypingSession) -> None:
    before = "".join(f"line {number}\n" for number in range(9_000)) + "tail"
    body = session.body(
        Moment(0, Kind.OPENED, before, "x" * 20_000, 3, "name"), max_tokens=32, deadline_ms=9
    )
    document = json.loads(body)["document"]
    start_line = document["prefix_start_line"]
    assert document["prefix"].startswith(f"line {start_line}\n")
    assert start_line > 0
    assert len(document["prefix"]) <= PREFIX_CHARS_MAX
    assert document["suffix"] == "x" * SUFFIX_CHARS_MAX
    assert json.loads(body)["mode"] == "line"


def test_a_short_document_is_sent_whole() -> None:
    assert window_start("a\nb") == 0
    assert window_start("x" * (PREFIX_CHARS_MAX + 5)) == 5


FILES = [
    UnseenFile(f"{package}/{number}.py", TEXT)
    for package, count in (("large", 12), ("small", 6), ("tiny", 2))
    for number in range(count)
]


def test_packages_take_turns_and_no_file_is_used_twice() -> None:
    sessions = sessions_in(FILES, seed=1, functions=8)
    paths = [each.file.path for each in sessions]
    assert [path.partition("/")[0] for path in paths] == ["large", "small", "large", "small"]
    assert len(set(paths)) == 4
    assert len({each.document_id for each in sessions}) == 4


def test_open_tabs_are_other_files_of_the_same_package() -> None:
    for session in sessions_in(FILES, seed=1, functions=8):
        package = session.file.path.partition("/")[0]
        tabs = {tab.path for tab in session.tabs}
        assert len(tabs) == 4
        assert session.file.path not in tabs
        assert {tab.partition("/")[0] for tab in tabs} == {package}


def test_the_same_seed_gives_the_same_sessions() -> None:
    assert sessions_in(FILES, 1, 8) == sessions_in(FILES, 1, 8) != sessions_in(FILES, 2, 8)


def test_more_functions_than_there_are_is_refused_with_the_number_that_there_is() -> None:
    with pytest.raises(ValueError, match=r"37 functions are wanted, .* give 36; ask for fewer"):
        sessions_in(FILES, seed=1, functions=37)
