import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.postprocess import Chain, Context, Dropped, Kept
from orchestrator.request import Document, Mode


def shown(text: str, prefix: str = "", suffix: str = "\n", mode: Mode = Mode.LINE) -> str:
    verdict = Chain().run(text, Context(Document(prefix, suffix), mode, "python"))
    return verdict.text if isinstance(verdict, Kept) else ""


@pytest.mark.parametrize(
    ("text", "suffix", "expected"),
    [
        ("a + b\n    c = 3", "\n", "a + b"),
        ("a + b;\r\nint z;", "\r\n", "a + b;"),
        ("value)<|endoftext|>", "\n", "value)"),
        ("value)</fim_middle>", "\n", "value)"),
        ("value)<｜fim▁end｜>x", "\n", "value)"),  # noqa: RUF001 (DeepSeek's own spelling)
        ("x  \t", "\n", "x"),
        (" if x > 0)", ")\n", " if x > 0"),
        ("1)", ")\nb\n", "1"),
        ("name}", '}: {n}")\n', "name"),
        ("b()", ")\n", "b()"),
        ("b())", ")\n", "b()"),
        ("hello'", "'\n", "hello"),
        ("'hello'", "'\n", "'hello'"),
        ("value", "e + 1\n", "value"),
        ("x, name", "name\n", "x, "),
        ("a", "\r\n", "a"),
    ],
)
def test_a_line_is_shown_as_it_fits_its_place(text: str, suffix: str, expected: str) -> None:
    assert shown(text, suffix=suffix) == expected


def test_a_block_keeps_its_lines() -> None:
    assert shown("a\n  b\n", mode=Mode.BLOCK) == "a\n  b"


@pytest.mark.parametrize("text", ["", "   \n\t\n", "<|endoftext|>", " ", "\r\n"])
def test_nothing_to_see_is_dropped_by_name(text: str) -> None:
    context = Context(Document("", ""), Mode.LINE, "python")
    assert Chain().run(text, context) == Dropped("whitespace_only")


@given(st.text(), st.text(), st.sampled_from(list(Mode)))
def test_the_chain_only_ever_shortens(text: str, suffix: str, mode: Mode) -> None:
    assert text.startswith(shown(text, suffix=suffix, mode=mode))


@given(st.text(alphabet="ab()'{}\n ", max_size=20), st.text(alphabet="ab()'{} ", max_size=10))
def test_what_is_shown_on_a_line_has_no_newline_and_is_not_blank(text: str, suffix: str) -> None:
    result = shown(text, suffix=suffix)
    assert "\n" not in result
    assert result == "" or result.strip()


def test_rules_after_a_drop_do_not_run() -> None:
    def drop(text: str, context: Context) -> Dropped:
        return Dropped("first")

    def explode(text: str, context: Context) -> Kept:
        raise AssertionError

    context = Context(Document("", ""), Mode.LINE, "python")
    assert Chain((drop, explode)).run("x", context) == Dropped("first")
