"""Starts one stack. It either returns with everything ready, or raises with everything stopped."""

import json
import os
import secrets
from pathlib import Path

from scripts.stack import processes
from scripts.stack.layout import RunFolder, StackConfig
from scripts.stack.paths import Programs, python_path
from scripts.stack.programs import plan_of
from scripts.stack.progress import Progress
from scripts.stack.running import stop, wait_ready
from scripts.stack.secret import ensure_key
from scripts.stack.supervisor import clean_environment, launch, make_private, runtime_dir
from scripts.stack.supervisord import render
from scripts.stack.triton_command import prepare_backend


def start(config: StackConfig, programs: Programs, progress: Progress) -> None:
    """Start everything and wait until it is ready; hold the folder meanwhile.

    Raises `StackError` that names the process at fault, with the end of its log.
    """
    folder = RunFolder(Path(config.run_dir))
    try:
        _write(config, programs, folder)
        launch(programs.plane_python, folder.supervisor_config, _environment(folder))
        wait_ready(config, progress)
        folder.ready.write_text("", encoding="ascii")
    except BaseException:
        progress.close()
        stop(folder, progress)
        raise
    progress.close()


def _environment(folder: RunFolder) -> dict[str, str]:
    environment = clean_environment(os.environ, python_path())
    return {**environment, processes.STACK_VARIABLE: str(folder.path)}


def _write(config: StackConfig, programs: Programs, folder: RunFolder) -> None:
    for path in (folder.state, folder.logs, folder.telemetry):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if config.trace:
        folder.traces.mkdir(mode=0o700, parents=True, exist_ok=True)
    ensure_key(folder.session_secret)
    prepare_backend(programs.triton_python, folder.backend)
    plan = plan_of(config, programs, folder, secrets.token_hex(16))
    for path, text in plan.files.items():
        path.write_text(text, encoding="utf-8")
    socket = folder.supervisor_socket(runtime_dir(os.environ))
    make_private(socket.parent)
    folder.supervisor_config.write_text(
        render(folder.state, socket, folder.log_of("supervisor"), plan.programs), encoding="utf-8"
    )
    folder.config.write_text(json.dumps(config.to_document(), indent=2) + "\n", encoding="utf-8")
