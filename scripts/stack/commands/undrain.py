"""`scripts/undrain REPLICA`: starts it, waits until it is ready, gives its sessions back slowly."""

import argparse
import sys

from scripts.stack.arguments import add_run_dir, run_folder
from scripts.stack.commands.interruptible import run
from scripts.stack.draining import undrain
from scripts.stack.errors import exit_code_of
from scripts.stack.layout import RunFolder, StackConfig
from scripts.stack.placement import Place
from scripts.stack.ticker import Ticker


def main() -> int:
    """Run the command; the exit code is 0 when the replica serves again."""
    parser = argparse.ArgumentParser(prog="scripts/undrain", description=__doc__)
    parser.add_argument("replica", metavar="REPLICA", help="replica-0, or its slot: slot-0")
    add_run_dir(parser)
    arguments = parser.parse_args()

    def body(config: StackConfig, folder: RunFolder, place: Place, ticker: Ticker) -> str:
        return undrain(config, folder, place, ticker.say)

    return run(run_folder(arguments), arguments.replica, body)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
