"""`scripts/bench NAME`: finds the bench by name, runs it, prints its table and its JSON line.

A bench is a module with `DESCRIPTION`, `add_arguments(parser)` and `run(arguments) -> Report`.
"""

import argparse
import importlib
import signal
import sys
from types import ModuleType

BENCHES = (
    "first-token",
    "cancel",
    "asgi-server",
    "token-healing",
    "typing-trace",
    "affinity",
    "drain",
    "isolation",
    "spill",
)


def load(name: str) -> ModuleType:
    """The module of the bench `name`; names use dashes, modules underscores."""
    return importlib.import_module(f"scripts.benches.{name.replace('-', '_')}")


def parser() -> argparse.ArgumentParser:
    """Command line with one subcommand a bench, so that each lists its own options."""
    top = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures one claim; prints a table and, as its last line, one JSON object.",
    )
    names = top.add_subparsers(dest="bench", required=True, metavar="NAME")
    for name in BENCHES:
        module = load(name)
        one = names.add_parser(name, help=module.DESCRIPTION, description=module.DESCRIPTION)
        one.add_argument("--seed", type=int, default=1, help="makes the run repeatable (default 1)")
        module.add_arguments(one)
    return top


def main() -> int:
    """Runs the chosen bench; exit status 0 when all that it holds was met, 1 when not."""
    arguments = parser().parse_args()
    # As an exception, so that a bench that is told to stop stops the stack that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    report = load(arguments.bench).run(arguments)
    report.show(sys.stdout)
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
