"""Keys leave the text that they are to leave, and an editor asks when a pause is long enough."""

import random
from collections.abc import Iterable

import pytest

from scripts.benches.keystrokes import Key, Kind, Moment, asked, typed

TEXT = '''def total(values, start=0):
    """Sum what is positive."""
    for value in values:
        if value > 0:

            start += value
    return start'''


def written(keys: Iterable[Key]) -> str:
    text = ""
    for key in keys:
        text = text[:-1] if key.kind is Kind.BACKSPACE else text + key.text
    return text


@pytest.mark.parametrize("seed", range(30))
def test_the_keys_leave_the_text(seed: int) -> None:
    assert written(typed(TEXT, random.Random(seed))) == TEXT


def test_the_same_seed_gives_the_same_keys() -> None:
    first, second = (list(typed(TEXT, random.Random(7))) for _ in range(2))
    assert first == second


def test_a_long_text_has_bursts_pauses_and_backspaces() -> None:
    keys = list(typed(TEXT * 40, random.Random(1)))
    pauses_ms = [key.pause_ms for key in keys]
    assert sum(pause_ms < 120 for pause_ms in pauses_ms) > len(keys) / 4
    assert max(pauses_ms) > 1_000
    share = sum(key.kind is Kind.BACKSPACE for key in keys) / len(keys)
    assert 0.01 < share < 0.1


def test_a_backspace_never_takes_a_line_break_away() -> None:
    text = ""
    for key in typed(TEXT * 40, random.Random(1)):
        if key.kind is Kind.BACKSPACE:
            assert text[-1] != "\n"
            text = text[:-1]
        else:
            text += key.text


def test_a_line_break_comes_with_the_indentation_of_the_next_line() -> None:
    breaks = [key.text for key in typed("a:\n    b\n\nc", random.Random(1)) if "\n" in key.text]
    assert breaks == ["\n    ", "\n", "\n"]


def moment(at_ms: float, kind: Kind = Kind.CHARACTER) -> Moment:
    return Moment(at_ms, kind, f"at {at_ms}", "", 0, "")


def test_the_editor_asks_only_for_keys_that_a_pause_follows() -> None:
    moments = [moment(at_ms) for at_ms in (0, 100, 249, 399, 600)]
    assert [each.at_ms for each in asked(moments, 150)] == [249, 399, 600]


def test_the_last_key_is_asked_for() -> None:
    assert [each.at_ms for each in asked([moment(0), moment(10)], 150)] == [10]
    assert list(asked([], 150)) == []


def test_a_request_is_of_the_weightiest_key_since_the_last_one() -> None:
    moments = [
        moment(0, Kind.OPENED),
        moment(10),
        moment(500, Kind.NEW_LINE),
        moment(510, Kind.BACKSPACE),
        moment(900),
    ]
    answers = [(each.at_ms, each.kind) for each in asked(moments, 150)]
    assert answers == [(10, Kind.OPENED), (510, Kind.NEW_LINE), (900, Kind.CHARACTER)]


def test_without_a_debounce_each_key_asks() -> None:
    assert len(list(asked([moment(0), moment(1), moment(2)], 0))) == 3
