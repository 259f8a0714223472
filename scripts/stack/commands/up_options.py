"""The options of `scripts/up`, read by both of its halves. Standard library only."""

import argparse
from pathlib import Path

from scripts.stack.arguments import add_run_dir, run_folder
from scripts.stack.engine import EngineSource, engine_dir
from scripts.stack.errors import StackError
from scripts.stack.layout import StackConfig

STARTED_VARIABLE = "WARMLINE_UP_STARTED"
"""Carries the start time (epoch, seconds) from the first half to the second."""

_DEFAULT = StackConfig(run_dir="/", engine_dir="/")


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    options = argparse.ArgumentParser(
        prog="scripts/up",
        description="Install what is missing, start the stack, and show one real completion.",
    )
    add = options.add_argument
    add("--model", type=Path, metavar="PATH", help="checkpoint folder or GGUF file to serve")
    add("--tokenizer", type=Path, metavar="PATH", help="its tokenizer.json, where it has none")
    add("--port", type=int, default=_DEFAULT.edge_port, help="of the edge (%(default)s)")
    add("--port-base", type=int, default=_DEFAULT.port_base, help="first of 70 (%(default)s)")
    add("--replicas", type=int, default=_DEFAULT.replicas, metavar="N", help="(%(default)s)")
    add("--workers", type=int, default=_DEFAULT.workers, metavar="N", help="(%(default)s)")
    add("--pools", default=",".join(_DEFAULT.pools), help="model pools (%(default)s)")
    add("--engine", choices=("openvino", "fake"), default=_DEFAULT.engine, help="(%(default)s)")
    add("--cache-mib", type=int, default=_DEFAULT.cache_mib, help="a replica (%(default)s)")
    add("--trace", action="store_true", help="write counts and times of each sequence to a file")
    add("--quiet", action="store_true", help="print errors only")
    add("--no-demo", action="store_true", help="do not ask for a completion at the end")
    add_run_dir(options)
    return options


def source_of(arguments: argparse.Namespace) -> EngineSource:
    """Return what the engine is built from. Raises `StackError` for a tokenizer without a model."""
    if arguments.tokenizer is not None and arguments.model is None:
        raise StackError("--tokenizer was given without --model.", "Name the model as well.")
    return EngineSource(arguments.model, arguments.tokenizer)


def config_of(arguments: argparse.Namespace) -> StackConfig:
    """Return the stack that was asked for. Raises `StackError` for values outside their limits."""
    return StackConfig(
        run_dir=str(run_folder(arguments).path),
        engine_dir=str(engine_dir(source_of(arguments))),
        edge_port=arguments.port,
        port_base=arguments.port_base,
        replicas=arguments.replicas,
        workers=arguments.workers,
        pools=tuple(name.strip() for name in arguments.pools.split(",") if name.strip()),
        engine=arguments.engine,
        cache_mib=arguments.cache_mib,
        trace=arguments.trace,
    )
