from dataclasses import replace

import pytest
from gguf import TokenType

from builders.checkpoints.checkpoint import DeclaredTokens
from builders.fim import control_ids, end_ids, find_template
from builders.fim_families import MARKER_SETS, ORDER_RULES
from builders.refusals import BuildRefusedError
from builders.vocabulary.vocabulary import Vocabulary

ORDINARY = ("a", "b", "\u010a")


def vocabulary(*markers: str, special: bool = True) -> Vocabulary:
    """Three ordinary tokens (ids 0 to 2), then the markers."""
    kind = TokenType.CONTROL if special else TokenType.USER_DEFINED
    kinds = (TokenType.NORMAL,) * len(ORDINARY) + (kind,) * len(markers)
    return Vocabulary((*ORDINARY, *markers), kinds, (), byte_level=True)


QWEN = (
    "<|endoftext|>",
    "<|im_end|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
DEEPSEEK = (
    "<\uff5cfim\u2581hole\uff5c>",
    "<\uff5cfim\u2581begin\uff5c>",
    "<\uff5cfim\u2581end\uff5c>",
)
CODE_LLAMA = ("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", "\u2581<EOT>")
STARCODER = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<filename>")
CODESTRAL = ("[PREFIX]", "[SUFFIX]")
BEGINNING = DeclaredTokens(begin_id=0)


@pytest.mark.parametrize(
    ("markers", "described_as", "order", "parts"),
    [
        (QWEN, "qwen2.5-coder-1.5b", "prefix_first", (QWEN[2], QWEN[4], QWEN[3])),
        (STARCODER, "granite-3b-code-base", "prefix_first", STARCODER[:3]),
        (STARCODER, "jetbrains/mellum-4b-base", "suffix_first", STARCODER[:3]),
        (CODE_LLAMA, "codellama-7b", "prefix_first", CODE_LLAMA[:3]),
        (DEEPSEEK, "deepseek-coder", "prefix_first", (DEEPSEEK[1], DEEPSEEK[0], DEEPSEEK[2])),
        (CODESTRAL, "codestral-22b", "suffix_first", (*CODESTRAL, None)),
    ],
)
def test_each_familys_markers_and_order_are_found_from_its_tokenizer(
    markers: tuple[str, ...], described_as: str, order: str, parts: tuple[str | None, ...]
) -> None:
    tokens = vocabulary(*markers)
    template = find_template(tokens, BEGINNING, described_as, None)
    ids = (template.prefix_id, template.suffix_id, template.middle_id)
    assert template.family == order
    assert tuple(None if i is None else tokens.tokens[i] for i in ids) == parts


def test_optional_markers_are_named_where_the_tokenizer_has_them() -> None:
    template = find_template(vocabulary(*STARCODER), BEGINNING, "", None)
    assert (template.pad_id, template.file_separator_id) == (6, 7)
    assert template.repository_name_id is None


def test_only_families_whose_prompts_start_with_it_get_the_begin_token() -> None:
    assert find_template(vocabulary(*QWEN), BEGINNING, "", None).begin_id is None
    assert find_template(vocabulary(*CODE_LLAMA), BEGINNING, "", None).begin_id == 0
    with pytest.raises(BuildRefusedError, match="begin-of-text token, and none is declared"):
        find_template(vocabulary(*CODE_LLAMA), DeclaredTokens(), "", None)


def test_the_users_order_wins_over_the_familys() -> None:
    template = find_template(vocabulary(*QWEN), DeclaredTokens(), "", "suffix_first")
    assert template.family == "suffix_first"


def test_a_template_without_a_middle_marker_cannot_be_prefix_first() -> None:
    with pytest.raises(BuildRefusedError, match="no middle marker"):
        find_template(vocabulary("[PREFIX]", "[SUFFIX]"), BEGINNING, "", "prefix_first")


def test_markers_that_only_the_checkpoints_keys_name_are_used() -> None:
    declared = DeclaredTokens(fim={"pre": 3, "suf": 4, "mid": 5, "sep": 6})
    template = find_template(vocabulary("<P>", "<S>", "<M>", "<F>"), declared, "", None)
    assert (template.family, template.prefix_id, template.suffix_id) == ("prefix_first", 3, 4)
    assert (template.middle_id, template.file_separator_id, template.pad_id) == (5, 6, None)


def test_a_tokenizer_without_markers_is_refused_and_told_what_would_do() -> None:
    with pytest.raises(BuildRefusedError) as refusal:
        find_template(vocabulary("<|endoftext|>"), DeclaredTokens(), "", None)
    assert "no complete set of fill-in-the-middle markers" in str(refusal.value)
    assert "<|fim_prefix|> <|fim_suffix|> <|fim_middle|>" in str(refusal.value)


def test_an_incomplete_marker_set_is_refused_by_the_name_of_what_is_missing() -> None:
    with pytest.raises(BuildRefusedError, match=r"qwen \(lacks <\|fim_middle\|>\)"):
        find_template(vocabulary("<|fim_prefix|>", "<|fim_suffix|>"), DeclaredTokens(), "", None)


def test_every_marker_set_has_an_order_for_a_model_of_any_name() -> None:
    for markers in MARKER_SETS:
        rules = [rule for rule in ORDER_RULES if rule.markers == markers.name]
        assert rules[-1].described_as == ""


def test_every_end_of_text_and_every_marker_ends_a_completion_declared_ends_first() -> None:
    tokens = vocabulary(*QWEN)
    template = find_template(tokens, DeclaredTokens(), "", None)
    assert end_ids(tokens, DeclaredTokens(end_ids=(4,)), template) == (4, 3, 5, 6, 7, 8, 9, 10)


def test_a_model_without_any_end_of_text_is_refused() -> None:
    tokens = vocabulary(*QWEN[2:])
    template = find_template(tokens, DeclaredTokens(), "", None)
    with pytest.raises(BuildRefusedError, match="no end-of-text token"):
        end_ids(tokens, DeclaredTokens(), template)


def test_a_declared_id_that_the_tokenizer_lacks_is_refused() -> None:
    tokens = vocabulary(*QWEN)
    template = find_template(tokens, DeclaredTokens(), "", None)
    with pytest.raises(BuildRefusedError, match="declares the token id 99"):
        end_ids(tokens, DeclaredTokens(end_ids=(99,)), template)


def test_markers_are_control_tokens_even_where_the_tokenizer_does_not_mark_them_special() -> None:
    tokens = vocabulary(*QWEN, "<|box_start|>", "<think>", special=False)
    template = find_template(tokens, DeclaredTokens(), "", None)
    ends = end_ids(tokens, DeclaredTokens(), template)
    shown = set(range(len(tokens.tokens))) - set(control_ids(tokens, ends))
    assert {tokens.tokens[i] for i in shown} == {*ORDINARY, "<think>"}


def test_an_ordinary_token_that_reads_like_a_marker_or_an_end_is_neither() -> None:
    tokens = vocabulary(*QWEN)
    html = replace(tokens, tokens=("</s>", "[PREFIX]", "[SUFFIX]", *QWEN))
    template = find_template(html, DeclaredTokens(), "", None)
    ends = end_ids(html, DeclaredTokens(), template)
    assert template.prefix_id == 5
    assert not {0, 1, 2} & {*ends, *control_ids(html, ends)}
