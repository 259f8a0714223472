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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from builders.training import surroundings
from builders.training.command_line import MODULE, budget_of, parser, recipe_of, stages_of
from builders.training.errors import TrainingError
from builders.training.options import Options, options_of

REPORT_EVERY_S = 10.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Turns SIGTERM and SIGINT into a wish that the loop grants between two steps."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the two signals inside the block; elsewhere they end the process as usual."""
        before = {number: signal.signal(number, self._ask) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True


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


def do_stages(given: argparse.Namespace) -> None:
    """Do the stages asked for; torch is imported only here, so that --help needs nothing."""
    chosen = recipe_of(given)
    budget = budget_of(given, chosen.optimisation, datetime.now().astimezone())
    wanted = stages_of(given)
    import torch  # noqa: PLC0415  # heavy, and absent where only the help is asked for

    from builders.training import stages  # noqa: PLC0415  # imports torch

    torch.set_num_threads(given.threads)
    options = options_of(given, chosen, budget)
    if "fetch" in wanted:
        stages.fetch_packages(options, say)
    if "corpus" in wanted:
        stages.build_corpus(options, say)
    if "train" in wanted and not train_until_stopped(options):
        return
    if "export" in wanted:
        stages.export_model(options, say)
    if "evaluate" in wanted:
        stages.evaluate_models(options, say)


def train_until_stopped(options: Options) -> bool:
    """The train stage; False where a signal ended it before its budget did."""
    from builders.training import stages  # noqa: PLC0415  # imports torch

    report = at_most_every(0.0 if options.small else REPORT_EVERY_S, say)
    stop = StopRequest()
    with stop.listening():
        outcome = stages.train_model(options, lambda: stop.asked, report)
    if not outcome.finished:
        say(f"stopped after step {outcome.step}; go on with --resume")
    return outcome.finished


def main() -> int:
    """Exit status: 0 done or stopped as asked, 1 a problem that the message explains."""
    given = parser().parse_args()
    surroundings.restart_if_needed(MODULE)
    try:
        do_stages(given)
    except TrainingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(
            f"error: {error.name} is missing; training has its own environment, see "
            "requirements/train.in",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
