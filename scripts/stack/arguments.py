"""Options that several commands share."""

import argparse
from pathlib import Path

from scripts.stack.layout import RunFolder
from scripts.stack.paths import ROOT


def add_run_dir(parser: argparse.ArgumentParser) -> None:
    """Add --run-dir."""
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=ROOT / "var",
        metavar="DIR",
        help="folder of the stack (default: var/ of the checkout)",
    )


def run_folder(arguments: argparse.Namespace) -> RunFolder:
    """Return the folder that --run-dir named, relative to the current one."""
    return RunFolder(arguments.run_dir.resolve())
