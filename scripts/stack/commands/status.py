"""`scripts/status`: what runs, since when, and how loaded the replicas are."""

import argparse
import json
import sys
import time
from typing import Any

from scripts.stack import probe
from scripts.stack.arguments import add_run_dir, run_folder
from scripts.stack.errors import StackError, exit_code_of
from scripts.stack.layout import RunFolder, ports_of, replica_name, slot_name
from scripts.stack.logs import tail
from scripts.stack.processes import stack_processes
from scripts.stack.running import look, running_config, supervisor_of
from scripts.stack.status_table import document, restarts, table

LOG_LINES_MAX = 20_000


def main() -> int:
    """Run the command; the exit code is 0 when everything is ready."""
    parser = argparse.ArgumentParser(prog="scripts/status", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_run_dir(parser)
    arguments = parser.parse_args()
    folder = run_folder(arguments)
    status = _status(folder)
    if arguments.json:
        print(json.dumps(status, indent=2))
    elif status["running"]:
        print(table(status))
    else:
        raise _nothing_runs(folder)
    return 0 if status["ready"] else 1


def _nothing_runs(folder: RunFolder) -> StackError:
    orphans = stack_processes(folder)
    if not orphans:
        return StackError(f"Nothing runs from {folder.path}.", "Start a stack with scripts/up.")
    return StackError(
        f"The supervisor of {folder.path} is gone; {len(orphans)} of its processes still run.",
        "scripts/up starts the stack anew, scripts/down ends them.",
    )


def _status(folder: RunFolder) -> dict[str, Any]:
    config = running_config(folder)
    if config is None:
        return {"running": False, "ready": False, "processes": [], "replicas": []}
    log = folder.log_of("supervisor")
    lines = tail(log.with_name(f"{log.name}.1"), LOG_LINES_MAX) + tail(log, LOG_LINES_MAX)
    loads = {
        replica_name(index): probe.replica_load(port)
        for index, port in enumerate(ports_of(config).replica_status)
    }
    slots = probe.slots(ports_of(config).control_plane_status)
    placements = {
        replica_name(index): slots.get(slot_name(index), {}) for index in range(config.replicas)
    }
    views = look(config, supervisor_of(folder))
    return document(views, restarts(lines), loads, time.time(), placements)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
