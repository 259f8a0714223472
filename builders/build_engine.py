"""Command line of the engine builder: `python -m builders.build_engine --output DIR`."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from builders.engine_build import build
from builders.engine_plan import REFERENCE_MODEL, BuildRequest
from builders.fim_families import ORDERS
from builders.refusals import BuildRefusedError
from builders.targets import TARGETS

EXIT_REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Build one engine; 0 when it is in place, 2 when the build was refused."""
    options = _parser().parse_args(arguments)
    # The GGUF library logs its plan as information and its doubts as warnings.
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    request = BuildRequest(**vars(options))
    try:
        result = build(request, lambda what: print(f"{what} ...", flush=True))
    except BuildRefusedError as refusal:
        print(f"The engine was not built. {refusal}", file=sys.stderr)
        return EXIT_REFUSED
    manifest = result.manifest
    outcome = "built" if result.built else "left as it is: it was built from the same input"
    print(f"{request.output}: {outcome}")
    print(f"{manifest['name']} {manifest['precision']} {manifest['engine_digest']}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="build_engine", description="Checkpoint to engine.")
    add = parser.add_argument
    add("--target", default="cpu", help=f"engine target: {', '.join(sorted(TARGETS))}")
    add(
        "--checkpoint",
        type=Path,
        default=REFERENCE_MODEL,
        help="Hugging Face folder or GGUF file (default: the reference model)",
    )
    add("--tokenizer", type=Path, help="tokenizer.json, where the checkpoint's own cannot be used")
    add("--output", type=Path, required=True, help="the engine folder to make")
    add("--name", help="the engine's name (default: the checkpoint's)")
    add("--context-tokens", type=int, help="longest prompt and completion together")
    add("--fim-family", choices=ORDERS, help="prompt order, where the checkpoint does not say")
    return parser


if __name__ == "__main__":
    sys.exit(main())
