"""What the command line asks for, and what it refuses."""

from datetime import UTC, datetime

import pytest

from builders.training import command_line, recipe
from builders.training.errors import TrainingError
from builders.training.schedule import Budget
from builders.training.surroundings import wanted_environment

NOW = datetime(2030, 5, 4, 15, 30, tzinfo=UTC)
PLAN = recipe.REFERENCE.optimisation


def budget(*arguments: str) -> Budget:
    return command_line.budget_of(command_line.parser().parse_args(arguments), PLAN, NOW)


def test_the_budget_is_the_cards_steps_where_nothing_is_said() -> None:
    assert budget() == Budget(steps=1_622)


def test_minutes_and_a_deadline_may_stand_together() -> None:
    given = budget("--minutes", "90", "--finish-by", "16:00")
    assert given == Budget(work_s=5_400.0, finish_at_s=NOW.timestamp() + 1_800)


def test_a_time_that_has_passed_is_tomorrows() -> None:
    given = budget("--finish-by", "15:00")
    assert given.finish_at_s == NOW.timestamp() + 23.5 * 3_600


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", "5", "--minutes", "1"), "contradict"),
        (("--steps", "0"), "above 0, not 0"),
        (("--minutes", "-2"), "above 0, not -2"),
        (("--finish-by", "noon"), "16:00, not 'noon'"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        budget(*arguments)


def test_the_schedule_can_be_changed_from_the_command_line() -> None:
    given = command_line.parser().parse_args(["--peak-scale", "0.5", "--decay-from", "0.2"])
    changed = command_line.recipe_of(given).optimisation
    assert (changed.peak_scale, changed.decay_from) == (0.5, 0.2)
    assert changed.long_rows_from == PLAN.long_rows_from


def test_a_share_above_one_is_refused() -> None:
    given = command_line.parser().parse_args(["--decay-from", "60"])
    with pytest.raises(TrainingError, match="from 0 to 1, not 60"):
        command_line.recipe_of(given)


def test_stages_run_in_their_own_order() -> None:
    given = command_line.parser().parse_args(["evaluate", "corpus"])
    assert command_line.stages_of(given) == ["corpus", "evaluate"]


def test_all_stages_run_where_none_is_named() -> None:
    given = command_line.parser().parse_args([])
    assert command_line.stages_of(given) == list(command_line.STAGES)


def test_an_unknown_stage_is_refused_with_the_known_ones() -> None:
    given = command_line.parser().parse_args(["deploy"])
    with pytest.raises(TrainingError, match=r"'deploy'.*fetch, corpus"):
        command_line.stages_of(given)


def test_jemalloc_is_put_beside_what_is_preloaded_already() -> None:
    wanted = wanted_environment("libjemalloc.so.2", {"LD_PRELOAD": "libother.so"})
    assert wanted is not None
    assert wanted["LD_PRELOAD"] == "libother.so libjemalloc.so.2"


def test_without_jemalloc_only_the_way_of_waiting_is_set() -> None:
    assert wanted_environment(None, {}) == {"OMP_WAIT_POLICY": "passive"}


def test_what_the_person_has_set_stays() -> None:
    given = {"OMP_WAIT_POLICY": "active", "LD_PRELOAD": "/opt/libjemalloc.so", "MALLOC_CONF": ""}
    assert wanted_environment("libjemalloc.so.2", given) is None


def test_a_restarted_process_does_not_restart_again() -> None:
    once = wanted_environment("libjemalloc.so.2", {"HOME": "/home/someone"})
    assert once is not None
    assert wanted_environment("libjemalloc.so.2", once) is None
