"""`scripts/drain REPLICA`: new streams go elsewhere at once, live ones finish, then it stops."""

import argparse
import sys

from scripts.stack.arguments import add_run_dir, run_folder
from scripts.stack.commands.interruptible import run
from scripts.stack.draining import drain
from scripts.stack.errors import exit_code_of
from scripts.stack.layout import RunFolder, StackConfig
from scripts.stack.placement import Place
from scripts.stack.ticker import Ticker


def main() -> int:
    """Run the command; the exit code is 0 when the replica is drained."""
    parser = argparse.ArgumentParser(prog="scripts/drain", description=__doc__)
    parser.add_argument("replica", metavar="REPLICA", help="replica-0, or its slot: slot-0")
    parser.add_argument(
        "--deadline-s", type=float, metavar="N", help="end it after N seconds (default: 60)"
    )
    parser.add_argument(
        "--force", action="store_true", help="below the pool's floor, and however many are warm"
    )
    parser.add_argument("--keep-running", action="store_true", help="do not stop the process")
    add_run_dir(parser)
    arguments = parser.parse_args()

    def body(config: StackConfig, folder: RunFolder, place: Place, ticker: Ticker) -> str:
        return drain(
            config,
            folder,
            place,
            force=arguments.force,
            deadline_s=arguments.deadline_s,
            keep_running=arguments.keep_running,
            say=ticker.say,
        )

    return run(run_folder(arguments), arguments.replica, body)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
