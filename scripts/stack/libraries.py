"""Asks the dynamic linker whether the installed programs find their system libraries."""

import os
import shutil
import subprocess
from pathlib import Path

from scripts.stack.paths import Programs
from scripts.stack.preflight import Problem, check_libraries, refuse
from scripts.stack.triton_command import inspect_python


def refuse_missing(installed: Programs) -> None:
    """Raise `StackError` that names the missing libraries and their packages.

    Triton's server and the stub of its Python backend are asked; Envoy needs the C library alone.
    Without `ldd` nothing can be asked, and the start itself will tell.
    """
    ldd = shutil.which("ldd")
    if ldd is None:
        return
    python = inspect_python(installed.triton_python)
    stub = python.server / "python_backend_stubs" / python.version / "triton_python_backend_stub"
    folders = f"{python.site_packages / 'nvidia_pytriton.libs'}:{python.library_dir}"
    programs = {
        "Triton's server": python.server / "bin" / "tritonserver",
        "Triton's Python backend": stub,
    }
    refuse(
        [
            problem
            for name, path in programs.items()
            for problem in _problems(ldd, name, path, folders)
        ]
    )


def _problems(ldd: str, name: str, program: Path, folders: str) -> list[Problem]:
    result = subprocess.run(
        [ldd, str(program)],
        env={**os.environ, "LD_LIBRARY_PATH": folders},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return check_libraries(name, result.stdout)
