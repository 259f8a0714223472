import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.generation.decoding import TokenDecoder
from orchestrator.generation.stopping import BlockRule
from tests.support.orchestrator import manifest, tokenizer

BYTES = tuple(bytes([byte]) for byte in range(256))
CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=30)


def decode_in_groups(
    ids: list[int], sizes: list[int], table: tuple[bytes, ...]
) -> tuple[str, bool]:
    decoder, text, at, turn = TokenDecoder(table, {0}), "", 0, 0
    while at < len(ids):
        size = sizes[turn % len(sizes)]
        text += decoder.feed(ids[at : at + size])
        at, turn = at + size, turn + 1
    return text, decoder.ended


@given(st.text(alphabet=st.characters(exclude_characters="\0")), CUTS)
def test_text_is_the_same_however_its_bytes_arrive(text: str, sizes: list[int]) -> None:
    assert decode_in_groups(list(text.encode()), sizes, BYTES) == (text, False)


@given(st.lists(st.integers(0, 255)), CUTS)
def test_any_bytes_decode_the_same_in_any_groups_and_never_to_a_replacement(
    ids: list[int], sizes: list[int]
) -> None:
    decoded = decode_in_groups(ids, sizes, BYTES)
    assert decoded == decode_in_groups(ids, [1], BYTES)
    text, _ = decoded
    assert bytes(ids).startswith(text.encode())


def test_a_character_is_held_back_until_its_last_byte() -> None:
    decoder = TokenDecoder(BYTES, {0})
    euro = list("€".encode())
    assert [decoder.feed([byte]) for byte in euro] == ["", "", "€"]


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([0x61, 0x00, 0x62], "a"),
        ([0x61, 0xFF, 0x62], "a"),
        ([0x61, 0xC3, 0x61], "a"),
        ([0x61, 999, 0x62], "a"),
        ([0x61, -1, 0x62], "a"),
    ],
)
def test_control_tokens_broken_bytes_and_unknown_ids_end_the_completion(
    ids: list[int], text: str
) -> None:
    decoder = TokenDecoder(BYTES, {0})
    assert decoder.feed(ids) == text
    assert decoder.ended
    assert decoder.feed([0x61]) == ""


def test_the_reference_tokenizers_ids_decode_to_the_text_they_came_from() -> None:
    code = "def f(é):\n    return '€😀'\n"
    decoder = TokenDecoder(tokenizer().token_bytes, frozenset(manifest().control_ids))
    assert decoder.feed(tokenizer().encode(code)) == code


def stopped(text: str, line_before: str = "    ", language: str = "python") -> str:
    return text[: BlockRule(line_before, language).feed(text)]


@pytest.mark.parametrize(
    ("line_before", "language", "text", "kept"),
    [
        ("        ", "python", "return 1\n\n    def g(self):", "return 1"),
        ("    ", "python", "a = 1\n    b = 2\nc = 3", "a = 1\n    b = 2"),
        ("    ", "python", "if a:\n        b\n    c\n", "if a:\n        b\n    c\n"),
        ("", "python", "    a = 1\n    b = 2\nc = 3", "    a = 1\n    b = 2"),
        ("    ", "python", "x = f(\n  1,\n)\n    y = 2\nz", "x = f(\n  1,\n)\n    y = 2"),
        ("def f(a):", "python", "\n    return a\n\nx = 1", "\n    return a"),
        ("    x = [", "python", "1, 2]\n", "1, 2"),
        ("  ", "javascript", "doIt();\n}", "doIt();"),
        ("  ", "javascript", "if (a) { b() }\n}\nc", "if (a) { b() }"),
        ("  ", "javascript", "a;\nb;\n", "a;\nb;\n"),
        ("  ", "javascript", 's = \'}\';\nt = "\\"}";\n}', 's = \'}\';\nt = "\\"}";'),
        ("  ", "javascript", "s = `}\n}`;\n}", "s = `}\n}`;"),
        ("", "markdown", "```python\nprint(1)\n```", "```python\nprint(1)\n```"),
        ("\t", "go", "return (1)\n}", "return (1)"),
        ("    ", "python", "# don't\n    x = 1\ny", "# don't\n    x = 1"),
    ],
)
def test_a_block_ends_where_its_brackets_or_its_indentation_say(
    line_before: str, language: str, text: str, kept: str
) -> None:
    assert stopped(text, line_before, language) == kept


@given(
    st.text(alphabet="ab (){}[]\"'`\\\n\t:", max_size=80),
    CUTS,
    st.sampled_from(["", "    ", "def f(a):", "\tif x {"]),
    st.sampled_from(["python", "go"]),
)
def test_the_block_rule_stops_at_the_same_place_however_the_text_was_cut(
    text: str, sizes: list[int], line_before: str, language: str
) -> None:
    rule, at, turn = BlockRule(line_before, language), 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        rule.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    assert rule.stop_at == BlockRule(line_before, language).feed(text)
    assert rule.stop_at is None or 0 <= rule.stop_at <= len(text)
