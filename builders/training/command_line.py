"""The command line of the training: options, and what follows from them. Imports no torch."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from builders.training import recipe
from builders.training.errors import TrainingError
from builders.training.schedule import Budget

MODULE = "builders.train_reference_model"
STAGES = ("fetch", "corpus", "train", "export", "evaluate")
REFERENCE_MODEL = Path(__file__).parents[1] / "reference_model"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(
        prog=f"python -m {MODULE}",
        description="Train the reference fill-in-the-middle model by the recipe of its card.",
    )
    line.add_argument(
        "stages", nargs="*", metavar="STAGE", help=f"which of {', '.join(STAGES)}; default: all"
    )
    line.add_argument("--smoke", action="store_true", help="tiny model, tiny corpus, no network")
    line.add_argument("--work-dir", type=Path, default=Path("var/training"), metavar="DIR")
    line.add_argument("--seed", type=int, default=1, help="of data and first weights; default 1")
    line.add_argument("--threads", type=int, default=2, help="torch threads; default 2")
    _add_source_options(line)
    _add_training_options(line)
    return line


def _add_source_options(line: argparse.ArgumentParser) -> None:
    group = line.add_argument_group("sources")
    group.add_argument(
        "--model",
        type=Path,
        default=REFERENCE_MODEL,
        metavar="DIR",
        help="folder of the tokenizer and of packages.tsv; default builders/reference_model",
    )
    group.add_argument("--packages", type=Path, metavar="FILE", help="another package list")
    group.add_argument(
        "--archives",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a folder with wheels or sdists, looked into before downloading; may be repeated",
    )
    group.add_argument("--offline", action="store_true", help="use only archives that are there")


def _add_training_options(line: argparse.ArgumentParser) -> None:
    group = line.add_argument_group("training")
    group.add_argument(
        "--from",
        type=Path,
        dest="start_from",
        metavar="DIR",
        help="start from this model's weights instead of random ones",
    )
    group.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    group.add_argument("--steps", type=int, help="end after so many steps; default: the card's")
    group.add_argument("--minutes", type=float, help="end after so much work, pauses not counted")
    group.add_argument(
        "--finish-by", metavar="HH:MM", help="end by this local time, decay included"
    )
    group.add_argument(
        "--peak-scale",
        type=float,
        metavar="X",
        help="factor on all learning rates, for training on",
    )
    group.add_argument(
        "--decay-from",
        type=float,
        metavar="X",
        help="share of the run after which rates fall; default 0.6",
    )
    group.add_argument(
        "--long-rows-from",
        type=float,
        metavar="X",
        help="share of the run after which rows are long; default 0.6",
    )
    group.add_argument("--checkpoint-minutes", type=float, default=5.0, metavar="M")
    group.add_argument("--compile", action="store_true", help="torch.compile; needs a C++ compiler")


def next_time_of_day(text: str, now: datetime) -> datetime:
    """The coming moment that `text` (HH:MM) names; raises TrainingError for other text."""
    try:
        wanted = datetime.strptime(text, "%H:%M").time()
    except ValueError as error:
        raise TrainingError(f"--finish-by takes a time such as 16:00, not {text!r}") from error
    moment = now.replace(hour=wanted.hour, minute=wanted.minute, second=0, microsecond=0)
    return moment if moment > now else moment + timedelta(days=1)


def budget_of(given: argparse.Namespace, plan: recipe.Optimisation, now: datetime) -> Budget:
    """Steps or time, as asked for; the card's steps where nothing was asked for."""
    timed = given.minutes is not None or given.finish_by is not None
    if timed and given.steps is not None:
        raise TrainingError("--steps and a time limit contradict each other; give one of them")
    for option in ("steps", "minutes"):
        value = getattr(given, option)
        if value is not None and value <= 0:
            raise TrainingError(f"--{option} must be above 0, not {value}")
    if not timed:
        return Budget(steps=given.steps or plan.steps)
    finish = next_time_of_day(given.finish_by, now).timestamp() if given.finish_by else None
    return Budget(work_s=given.minutes * 60 if given.minutes else None, finish_at_s=finish)


def recipe_of(given: argparse.Namespace) -> recipe.Recipe:
    """The card's recipe or the smoke recipe, with the command line's changes to the schedule."""
    chosen = recipe.SMOKE if given.smoke else recipe.REFERENCE
    names = ("peak_scale", "decay_from", "long_rows_from")
    changes = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    for name, value in changes.items():
        if not 0.0 <= value <= 1.0:
            raise TrainingError(f"--{name.replace('_', '-')} must be from 0 to 1, not {value}")
    return replace(chosen, optimisation=replace(chosen.optimisation, **changes))


def stages_of(given: argparse.Namespace) -> Sequence[str]:
    """The stages asked for, in their order."""
    unknown = [stage for stage in given.stages if stage not in STAGES]
    if unknown:
        raise TrainingError(f"unknown stage {unknown[0]!r}; the stages are {', '.join(STAGES)}")
    return [stage for stage in STAGES if not given.stages or stage in given.stages]
