import random
from collections import Counter
from pathlib import Path

import pytest

from replica.manifest import EngineManifest
from scripts.benches.isolation import BASELINE, FIRST_BLOCK, KINDS, QUESTIONS, SAME, Trial, Trials

LENGTH = 60


@pytest.fixture
def trials() -> Trials:
    manifest = EngineManifest(
        engine_digest="sha256:none",
        context_tokens=1536,
        reserved_salt_tokens=8,
        vocabulary_size=8192,
        block_tokens=32,
        end_ids=frozenset({0}),
        control_ids=frozenset(range(7)),
        newline_ids=frozenset(),
        layers=1,
        key_value_heads=1,
        head_dim=1,
        weights=Path("none"),
    )
    return Trials(random.Random(1), manifest, LENGTH)


def of_kind(trials: Trials, kind: str) -> list[Trial]:
    return [trial for trial in trials.shuffled(3) if trial.kind == kind]


def test_every_kind_comes_as_often_in_a_shuffled_order(trials: Trials) -> None:
    kinds = [trial.kind for trial in trials.shuffled(20)]
    assert Counter(kinds) == dict.fromkeys(KINDS, 20)
    assert len(set(kinds[:20])) > 1


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_question_sends_the_same_prompt_under_another_salt(trials: Trials, kind: str) -> None:
    for trial in of_kind(trials, kind):
        (ours, prompt), (theirs, again) = trial.first, trial.second
        assert ours != theirs
        assert prompt == again
        assert len(prompt) == LENGTH


def test_the_baseline_sends_a_prompt_that_nobody_sent(trials: Trials) -> None:
    for trial in of_kind(trials, BASELINE):
        assert trial.first[0] != trial.second[0]
        assert trial.first[1] != trial.second[1]


def test_the_controls_keep_the_salt_and_the_prompt_or_its_first_block(trials: Trials) -> None:
    for trial in of_kind(trials, SAME):
        assert trial.first == trial.second
    for trial in of_kind(trials, FIRST_BLOCK):
        (ours, prompt), (same, other) = trial.first, trial.second
        assert ours == same
        assert prompt[:24] == other[:24]
        assert prompt[24] != other[24]


def test_no_two_trials_share_a_salt(trials: Trials) -> None:
    salts = [trial.first[0] for trial in trials.shuffled(10)]
    assert len(set(salts)) == len(salts)
