"""`scripts/env`: make the environments complete, or say what they hold."""

import argparse
import sys

from scripts.stack.environments import ensure, missing, read_marker
from scripts.stack.errors import exit_code_of
from scripts.stack.paths import environments_folder
from scripts.stack.plan import FOLDER_OF

DEFAULT = ("plane", "triton", "envoy")


def main() -> int:
    """Run the command; the exit code is 0 when every named environment is complete."""
    parser = argparse.ArgumentParser(prog="scripts/env", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(FOLDER_OF)} (default: {DEFAULT})"
    )
    parser.add_argument("--check", action="store_true", help="install nothing, only say what lacks")
    arguments = parser.parse_args()
    names = arguments.names or DEFAULT
    if arguments.check:
        lacking = missing(names)
        print("\n".join(f"{folder}: to be made" for folder in lacking) or "complete")
        return 1 if lacking else 0
    if not ensure(names):
        for folder in dict.fromkeys(FOLDER_OF[name] for name in names):
            marker = read_marker(environments_folder() / folder)
            version = marker.interpreter.version if marker else "unknown"
            print(f"{folder}: complete (Python {version})")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
