"""`scripts/logs [NAME...]`: the ends of the processes' logs; they hold nothing of a request."""

import argparse
import sys
from pathlib import Path

from scripts.stack.arguments import add_run_dir, run_folder
from scripts.stack.errors import StackError, exit_code_of
from scripts.stack.layout import RunFolder
from scripts.stack.logs import follow, tail


def main() -> int:
    """Run the command; with -f it goes on until it is interrupted."""
    parser = argparse.ArgumentParser(prog="scripts/logs", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="processes (default: all)")
    parser.add_argument("-n", "--lines", type=int, default=20, help="of each log (%(default)s)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is appended")
    add_run_dir(parser)
    arguments = parser.parse_args()
    paths = _paths(run_folder(arguments), arguments.names)
    for path in paths:
        for line in tail(path, arguments.lines):
            _print(path, line, paths)
    if arguments.follow:
        for path, line in follow(paths):
            _print(path, line, paths)
    return 0


def _paths(folder: RunFolder, names: list[str]) -> list[Path]:
    present = sorted(folder.logs.glob("*.log"))
    known = [path.stem for path in present]
    if not known:
        raise StackError(f"There are no logs in {folder.logs}.", "Start a stack with scripts/up.")
    for name in names:
        if name not in known:
            raise StackError(f"There is no log {name!r}.", f"Choose from: {', '.join(known)}.")
    return [folder.log_of(name) for name in names or known]


def _print(path: Path, line: str, paths: list[Path]) -> None:
    width = max(len(path.stem) for path in paths)
    print(f"{path.stem:<{width}} | {line}" if len(paths) > 1 else line, flush=True)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
