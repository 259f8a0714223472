"""Tokens and rows, with the shipped tokenizer."""

from pathlib import Path

import pytest

from builders.training.batches import BatchSource
from builders.training.corpus import SourceFile
from builders.training.errors import TrainingError
from builders.training.examples import END, FileSampler, infilling_prompt
from builders.training.recipe import ExampleMix
from builders.training.tokens import PieceTokenizer

MODEL = Path(__file__).parents[3] / "builders" / "reference_model"
CODE = "def add(left, right):\n    return left + right\n\n\n" * 60


@pytest.fixture(scope="module")
def tokenizer() -> PieceTokenizer:
    return PieceTokenizer(MODEL / "tokenizer.json")


@pytest.fixture(scope="module")
def batches(tokenizer: PieceTokenizer) -> BatchSource:
    files = [SourceFile("p", f"p/m{n}.py", CODE) for n in range(3)]
    return BatchSource(FileSampler(files), tokenizer, ExampleMix(), seed=3)


def test_a_prompt_has_the_cards_markers_in_the_cards_order(tokenizer: PieceTokenizer) -> None:
    ids = tokenizer.encode([*infilling_prompt("a.py", "x = ", "\ny"), END])
    assert [one for one in ids if one < 7] == [6, 3, 1, 2, 0]
    assert tokenizer.decode(ids) == "a.py\n\nyx = "


def test_text_that_spells_a_special_token_stays_text(tokenizer: PieceTokenizer) -> None:
    ids = tokenizer.encode(["<|endoftext|>"])
    assert 0 not in ids
    assert tokenizer.decode(ids) == "<|endoftext|>"


def test_a_step_has_the_same_rows_whenever_it_is_asked_for(batches: BatchSource) -> None:
    later = list(batches.micro_batches(9, 512, 128, 256))
    list(batches.micro_batches(1, 512, 128, 256))
    assert list(batches.micro_batches(9, 512, 128, 256)) == later
    assert list(batches.micro_batches(10, 512, 128, 256)) != later


def test_rows_cover_the_steps_tokens_and_targets_are_one_ahead(batches: BatchSource) -> None:
    groups = list(batches.micro_batches(0, 512, 128, 256))
    assert [len(group.inputs) for group in groups] == [2, 2]
    flat_in = [one for group in groups for row in group.inputs for one in row]
    flat_out = [one for group in groups for row in group.targets for one in row]
    assert flat_in[1:] == flat_out[:-1]
    assert len(flat_in) == 512


def test_a_row_longer_than_the_micro_batch_still_makes_a_group(batches: BatchSource) -> None:
    assert [len(group.inputs) for group in batches.micro_batches(0, 512, 256, 100)] == [1, 1]


def test_a_missing_tokenizer_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="--model"):
        PieceTokenizer(tmp_path / "tokenizer.json")
