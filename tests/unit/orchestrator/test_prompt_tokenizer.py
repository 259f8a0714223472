import argparse
import inspect
import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers

from orchestrator.prompt.byte_alphabet import byte_of_character
from orchestrator.prompt.engine_manifest import EngineFolderError
from orchestrator.prompt.line_cuts import CutStyle, level_of_content, level_of_number
from orchestrator.prompt.tokenizer import TextTokenizer
from tests.support.orchestrator import TOKENIZER_FILE, manifest, text_of, tokenizer

CONTROL_SPELLINGS = ["<|fim_middle|>", "<|endoftext|>", "<|file_sep|>", "<|fim_prefix|>"]
MARKED = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(CONTROL_SPELLINGS))).map("".join)


def document() -> dict[str, object]:
    parsed: dict[str, object] = json.loads(TOKENIZER_FILE.read_bytes())
    return parsed


@given(MARKED)
def test_text_never_becomes_a_control_token(text: str) -> None:
    assert set(tokenizer().encode(text)).isdisjoint(manifest().control_ids)


def test_a_control_token_in_code_stays_the_text_that_it_is() -> None:
    code = 'STOP = "<|fim_middle|>"\n'
    assert text_of(tokenizer().encode(code)) == code


def test_fim_markers_that_the_tokenizer_does_not_call_special_are_no_exception() -> None:
    parsed = document()
    for token in parsed["added_tokens"]:  # type: ignore[attr-defined]
        token["special"] = False
    lax = TextTokenizer(json.dumps(parsed).encode(), manifest())
    assert lax.encode("a<|fim_middle|>b") == tokenizer().encode("a<|fim_middle|>b")


def test_a_tokenizer_whose_text_can_spell_a_control_token_is_refused() -> None:
    reachable = tokenizer().encode("return")[0]
    with pytest.raises(EngineFolderError, match=f"control token {reachable}"):
        TextTokenizer(TOKENIZER_FILE.read_bytes(), manifest(control_ids=(0, reachable)))


@pytest.mark.parametrize("content", [b"{}", b"nonsense", b"[]"])
def test_what_is_no_tokenizer_file_is_refused_with_the_reason(content: bytes) -> None:
    with pytest.raises(EngineFolderError, match=r"tokenizer\.json"):
        TextTokenizer(content, manifest())


@given(st.text())
def test_token_bytes_spell_the_text_again(text: str) -> None:
    assert b"".join(tokenizer().token_bytes[each] for each in tokenizer().encode(text)) == (
        text.encode()
    )


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b"])
def test_half_characters_do_not_crash_the_tokenizer(text: str) -> None:
    assert "\ufffd" in text_of(tokenizer().encode(text))


def test_the_byte_alphabet_has_one_character_for_each_byte() -> None:
    table = byte_of_character()
    assert sorted(table.values()) == list(range(256))
    assert table["Ġ"] == 0x20
    assert table["Ċ"] == 0x0A


# Pre-tokenizer patterns as published with the models.
PATTERNS = {
    "newline joins what precedes": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "newline joins other whitespace": (r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"),
    "newline joins the indentation": r"\p{N}| ?[\p{L}_]+| ?[^\s\p{L}\p{N}_]+|\r?\n[ \t]*|\s+",
}
SPECIAL = ["<end>", "<prefix>", "<middle>", "<suffix>", "<pad>", "<repository>", "<file>"]


def trained(pattern: str) -> TextTokenizer:
    """A small byte-level tokenizer with this pattern, trained on one module."""
    small = tokenizers.Tokenizer(models.BPE())
    small.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    small.train_from_iterator([inspect.getsource(argparse)], trainer)
    return TextTokenizer(small.to_str().encode(), manifest())


@pytest.mark.parametrize(
    ("pattern", "style"),
    [
        ("newline joins what precedes", CutStyle.AFTER_NEWLINE),
        ("newline joins other whitespace", CutStyle.BEFORE_WHITESPACE),
        ("newline joins the indentation", CutStyle.BEFORE_WHITESPACE),
    ],
)
def test_lines_are_cut_where_the_tokenizer_does_not_notice(pattern: str, style: CutStyle) -> None:
    probed = trained(PATTERNS[pattern])
    assert probed.cut_style is style
    code = "def f(a):\n    if a:\n        return g(a)\n    return [1,\n            2]\n"
    lines = [at + 1 for at, character in enumerate(code[:-1]) if character == "\n"]
    for cut in (style.cut_before_line(code, line) for line in lines):
        assert probed.encode(code[:cut]) + probed.encode(code[cut:]) == probed.encode(code)


def test_cuts_lie_before_blank_lines_or_after_the_newline() -> None:
    text = "a\n\n    b"
    assert CutStyle.BEFORE_WHITESPACE.cut_before_line(text, 3) == 1
    assert CutStyle.AFTER_NEWLINE.cut_before_line(text, 3) == 3


def test_a_long_run_of_blank_lines_is_cut_at_the_line() -> None:
    text = "a" + "\n" * 1000
    assert CutStyle.BEFORE_WHITESPACE.cut_before_line(text, 1000) == 1000


@pytest.mark.parametrize(
    ("number", "level"), [(0, 5), (1, 0), (2, 1), (16, 4), (32, 5), (64, 5), (96, 5), (48, 4)]
)
def test_every_32nd_line_is_a_coarse_boundary(number: int, level: int) -> None:
    assert level_of_number(number, 5) == level


def test_about_one_line_in_32_is_a_coarse_boundary_by_its_content() -> None:
    levels = [level_of_content(f"value_{number} = {number}", 5) for number in range(10_000)]
    assert 200 < levels.count(5) < 430
    assert level_of_content("    value_1 = 1\n", 5) == level_of_content("value_1 = 1", 5)
    assert level_of_content("}", 5) == 0
