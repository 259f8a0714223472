"""`scripts/down`: stop the stack; environments, engines, logs and the session key stay."""

import argparse
import sys

from scripts.stack.arguments import add_run_dir, run_folder
from scripts.stack.errors import exit_code_of
from scripts.stack.progress import PlainProgress
from scripts.stack.running import holding, stop


def main() -> int:
    """Run the command; the exit code is 0 when nothing of the stack runs any more."""
    parser = argparse.ArgumentParser(prog="scripts/down", description=__doc__)
    add_run_dir(parser)
    folder = run_folder(parser.parse_args())
    progress = PlainProgress()
    with holding(folder, progress):
        ran = stop(folder, progress)
    print("stopped" if ran else f"nothing runs from {folder.path}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
