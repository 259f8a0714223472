"""`scripts/up`: install what is missing, start the stack, show one real completion.

This half runs before anything is installed, so it uses the standard library only; it hands over to
`up_stack`, which runs in the request plane's environment.
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from scripts.stack.commands.up_options import STARTED_VARIABLE, config_of, parser
from scripts.stack.environments import ensure
from scripts.stack.errors import exit_code_of
from scripts.stack.layout import RunFolder, StackConfig, ports_of
from scripts.stack.machine import look
from scripts.stack.paths import ROOT, programs
from scripts.stack.preflight import check_machine, check_paths, check_room, refuse
from scripts.stack.processes import stack_processes


def main() -> int:
    """Check, install, and hand over; never returns when all is well."""
    started = time.time()
    arguments = parser().parse_args()
    config = config_of(arguments)
    _preflight(config)
    report = (lambda _: None) if arguments.quiet else print
    ensure(needed_environments(os.environ), report)
    python = str(programs(os.environ).plane_python)
    environment = {**os.environ, STARTED_VARIABLE: str(started)}
    sys.stdout.flush()
    os.execve(  # noqa: S606 - no shell is wanted
        python, [python, "-m", "scripts.stack.commands.up_stack", *sys.argv[1:]], environment
    )


def _preflight(config: StackConfig) -> None:
    """Refuse early what cannot work; a stack of this folder that runs already holds its ports."""
    facts = look(Path(config.run_dir), ports_of(config).named())
    paths = {"the checkout": str(ROOT), "the run folder": config.run_dir}
    problems = check_machine(facts) + check_paths(paths)
    if not stack_processes(RunFolder(Path(config.run_dir))):
        problems += check_room(facts, config)
    refuse(problems)


def needed_environments(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the environments of which the caller has not named a ready-made one."""
    overrides = {
        "plane": "WARMLINE_PLANE_PYTHON",
        "triton": "WARMLINE_TRITON_PYTHON",
        "envoy": "WARMLINE_ENVOY",
    }
    return tuple(name for name, variable in overrides.items() if not environ.get(variable))


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
