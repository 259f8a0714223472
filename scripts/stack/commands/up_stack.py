"""The second half of `scripts/up`: build the engine, start everything, ask for one completion."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from scripts.stack.answer import Place, cut, show
from scripts.stack.ask import complete, new_installation
from scripts.stack.commands.up_options import STARTED_VARIABLE, config_of, parser, source_of
from scripts.stack.engine import build
from scripts.stack.errors import StackError, exit_code_of
from scripts.stack.layout import ADDRESS, RunFolder, StackConfig, ports_of
from scripts.stack.libraries import refuse_missing
from scripts.stack.live_progress import progress_for
from scripts.stack.machine import look
from scripts.stack.paths import programs
from scripts.stack.preflight import check_room, refuse
from scripts.stack.processes import stack_processes
from scripts.stack.progress import Progress
from scripts.stack.running import holding, running_config, stop, wait_ready
from scripts.stack.start import start

DEMO_FILE = "fibonacci.py"
DEMO_TEXT = '''def fibonacci(n):
    """Return the first n Fibonacci numbers."""
    numbers = [0, 1]
    while len(numbers) < n:
        numbers.append(
    return numbers
'''
DEMO_PLACE = Place(DEMO_FILE, line=5, column=24)
DEMO_DEADLINE_MS = 2000


def main() -> int:
    """Run the second half; the exit code is 0 when the stack is ready."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    arguments = parser().parse_args()
    config = config_of(arguments)
    progress = progress_for(arguments.quiet)
    with holding(RunFolder(Path(config.run_dir)), progress):
        already = _bring_up(arguments, config, progress)
    if not arguments.quiet:
        _tell(arguments, config, already)
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Interrupt once; what follows is the clean-up, which a second Ctrl-C must not break."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _bring_up(arguments: argparse.Namespace, config: StackConfig, progress: Progress) -> bool:
    """Return whether the stack was running already."""
    folder = RunFolder(Path(config.run_dir))
    running = running_config(folder)
    if running is not None and folder.ready.exists():
        _refuse_other(running, config)
        wait_ready(config, progress)
        progress.close()
        return True
    if running is not None or stack_processes(folder):
        progress.note("an earlier start was interrupted; stopping what it left")
        stop(folder, progress)
    refuse(check_room(look(folder.path, ports_of(config).named()), config))
    installed = programs(os.environ)
    refuse_missing(installed)
    build(source_of(arguments), installed.plane_python, progress.note)
    start(config, installed, progress)
    return False


def _refuse_other(running: StackConfig, wanted: StackConfig) -> None:
    have, want = running.to_document(), wanted.to_document()
    changed = [f"{key} is {have[key]}, not {want[key]}" for key in have if have[key] != want[key]]
    if changed:
        raise StackError(
            f"A stack runs from {wanted.run_dir} with other settings: {'; '.join(changed)}.",
            "Stop it with scripts/down first, or start this one beside it with --run-dir, --port "
            "and --port-base.",
        )


def _tell(arguments: argparse.Namespace, config: StackConfig, already: bool) -> None:
    url = f"http://{ADDRESS}:{config.edge_port}"
    began = float(os.environ.get(STARTED_VARIABLE, time.time()))
    print(f"\n{'already running' if already else 'ready'} after {time.time() - began:.1f} s")
    print(f"  completions  POST {url}/v1/inline-completions")
    metrics = ports_of(config).worker_metrics
    print(f"  metrics      {', '.join(f'http://{ADDRESS}:{port}/metrics' for port in metrics)}")
    print(f"  files        {config.run_dir} (logs in log/)")
    print("  next         scripts/complete FILE:LINE:COLUMN, scripts/status, scripts/down")
    if not arguments.no_demo:
        _demo(url)


def _demo(url: str) -> None:
    document = cut(DEMO_TEXT, DEMO_PLACE)
    answer = complete(
        url,
        DEMO_PLACE,
        document,
        mode="line",
        deadline_ms=DEMO_DEADLINE_MS,
        installation=new_installation(),
    )
    print(f"\nA completion at {DEMO_FILE}:{DEMO_PLACE.line}:{DEMO_PLACE.column}")
    print(show(document, answer, sys.stdout.isatty() and not os.environ.get("NO_COLOR")))


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
