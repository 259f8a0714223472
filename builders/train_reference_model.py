"""Reproduces the reference model from public packages, or trains it further.

    python -m builders.train_reference_model                        everything, as the card says
    python -m builders.train_reference_model --smoke                the same in a minute, tiny
    python -m builders.train_reference_model --resume               go on from the last checkpoint
    python -m builders.train_reference_model --from builders/reference_model --minutes 90

Needs its own environment: requirements/train.in says how. docs/training.md describes the stages.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from builders.training import allocator, recipe
from builders.training.errors import TrainingError
from builders.training.schedule import Budget

MODULE = "builders.train_reference_model"
STAGES = ("fetch", "corpus", "train", "export", "evaluate")
REFERENCE_MODEL = Path(__file__).parent / "reference_model"
REPORT_EVERY_S = 10.0


class StopRequest:
    """Set by SIGTERM or SIGINT; the loop looks at it between two steps."""

    def __init__(self) -> None:
        self.asked = False

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True


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
        "--model", type=Path, default=REFERENCE_MODEL, metavar="DIR",
        help="folder of the tokenizer and of packages.tsv; default builders/reference_model",
    )
    group.add_argument("--packages", type=Path, metavar="FILE", help="another package list")
    group.add_argument(
        "--archives", type=Path, action="append", default=[], metavar="DIR",
        help="a folder with wheels or sdists, looked into before downloading; may be repeated",
    )
    group.add_argument("--offline", action="store_true", help="use only archives that are there")


def _add_training_options(line: argparse.ArgumentParser) -> None:
    group = line.add_argument_group("training")
    group.add_argument("--from", type=Path, dest="start_from", metavar="DIR",
                       help="start from this model's weights instead of random ones")
    group.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    group.add_argument("--steps", type=int, help="end after so many steps; default: the card's")
    group.add_argument("--minutes", type=float, help="end after so much work, pauses not counted")
    group.add_argument("--finish-by", metavar="HH:MM", help="end by this local time, decay included")
    group.add_argument("--peak-scale", type=float, metavar="X",
                       help="factor on all learning rates, for training on")
    group.add_argument("--decay-from", type=float, metavar="X",
                       help="share of the run after which rates fall; default 0.6")
    group.add_argument("--long-rows-from", type=float, metavar="X",
                       help="share of the run after which rows are long; default 0.6")
    group.add_argument("--checkpoint-minutes", type=float, default=5.0, metavar="M")
    group.add_argument("--compile", action="store_true", help="torch.compile; needs a C++ compiler")


def next_time_of_day(text: str, now: datetime) -> datetime:
    """The coming moment that `text` (HH:MM) names; raises TrainingError for other text."""
    try:
        wanted = datetime.strptime(text, "%H:%M").time()  # noqa: DTZ007  # a time of day, no date
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


def at_most_every(seconds: float, report: Callable[[str], None]) -> Callable[[str], None]:
    """`report`, but silent until `seconds` have passed since the last line."""
    last_s = float("-inf")

    def throttled(line: str) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= seconds:
            last_s = time.monotonic()
            report(line)

    return throttled


def say(line: str) -> None:
    """One line to the person, at once also where the output is a file."""
    print(line, flush=True)


def run(given: argparse.Namespace, stop: StopRequest) -> None:
    """Do the stages; torch is imported only here, so that --help needs nothing."""
    chosen = recipe_of(given)
    budget = budget_of(given, chosen.optimisation, datetime.now().astimezone())
    wanted = stages_of(given)
    import torch  # noqa: PLC0415  # heavy, and absent where only the help is asked for

    from builders.training import stages  # noqa: PLC0415  # imports torch

    torch.set_num_threads(given.threads)
    options = stages.Options(
        recipe=chosen,
        work_dir=given.work_dir,
        model_dir=given.model,
        package_list=given.packages or given.model / "packages.tsv",
        archive_folders=tuple(given.archives),
        start_from=given.start_from,
        budget=budget,
        seed=given.seed,
        small_corpus=given.smoke,
        offline=given.offline,
        resume=given.resume,
        compiled=given.compile,
        checkpoint_every_s=given.checkpoint_minutes * 60,
    )
    if "fetch" in wanted:
        stages.fetch_packages(options, say)
    if "corpus" in wanted:
        stages.build_corpus(options, say)
    if "train" in wanted:
        every_s = 0.0 if given.smoke else REPORT_EVERY_S
        outcome = stages.train_model(options, lambda: stop.asked, at_most_every(every_s, say))
        if not outcome.finished:
            say(f"stopped after step {outcome.step}; go on with --resume")
            return
    if "export" in wanted:
        stages.export_model(options, say)
    if "evaluate" in wanted:
        stages.evaluate_models(options, say)


def main() -> int:
    """Exit status: 0 done or stopped as asked, 1 a problem that the message explains."""
    given = parser().parse_args()
    allocator.restart_with_jemalloc(MODULE)
    stop = StopRequest()
    stop.install()
    try:
        run(given, stop)
    except TrainingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(
            f"error: {error.name} is missing; training has its own environment, see "
            "requirements/train.in",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
