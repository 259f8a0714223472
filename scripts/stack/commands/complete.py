"""`scripts/complete FILE:LINE:COLUMN`: ask the running stack for the grey text at a place."""

import argparse
import json
import os
import sys
from pathlib import Path

from scripts.stack.answer import cut, parse_place, show
from scripts.stack.arguments import add_run_dir, run_folder
from scripts.stack.ask import complete
from scripts.stack.errors import StackError, exit_code_of
from scripts.stack.layout import ADDRESS, RunFolder
from scripts.stack.running import running_config

FILE_BYTES_MAX = 16 * 1024 * 1024


def main() -> int:
    """Run the command; 0 when the stack answered, with a suggestion or without."""
    arguments = _arguments()
    place = parse_place(arguments.place)
    document = cut(_read(Path(place.file)), place)
    url = arguments.url or _url(run_folder(arguments))
    answer = complete(url, place, document, mode=arguments.mode, deadline_ms=arguments.deadline_ms)
    if arguments.json:
        print(json.dumps(answer, ensure_ascii=False, indent=2))
    else:
        coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(show(document, answer, coloured))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/complete", description=__doc__)
    parser.add_argument("place", metavar="FILE:LINE:COLUMN", help="both counted from 1")
    parser.add_argument("--url", help="edge of the stack (default: the one of --run-dir)")
    parser.add_argument("--mode", choices=("auto", "line", "block"), default="auto")
    parser.add_argument(
        "--deadline-ms",
        type=int,
        metavar="N",
        help="answer within N ms (at most the mode's own limit)",
    )
    parser.add_argument("--json", action="store_true", help="print the whole answer")
    add_run_dir(parser)
    return parser.parse_args()


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise StackError(
                f"{path} is larger than {FILE_BYTES_MAX // 2**20} MiB.", "Choose another file."
            )
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise StackError(f"{path} cannot be read: {error.strerror}.", "Correct the path.") from None
    except UnicodeDecodeError:
        raise StackError(f"{path} is not UTF-8 text.", "Choose a text file.") from None


def _url(folder: RunFolder) -> str:
    config = running_config(folder)
    if config is None:
        raise StackError(
            f"No stack runs from {folder.path}.",
            "Start it with scripts/up, or name one with --url or --run-dir.",
        )
    return f"http://{ADDRESS}:{config.edge_port}"


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
