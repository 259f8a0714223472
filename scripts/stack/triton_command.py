"""How a replica's Triton server is started from its Python environment.

`nvidia-pytriton`'s wheel carries a whole `tritonserver` with the Python backend; only that binary
is used. `prepare_backend` alone writes; the others ask the environment's interpreter once where
things are and compute.
"""

import functools
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LOOPBACK = "127.0.0.1"
RESTRICTED_PROTOCOLS = "model-repository,shared-memory,trace,logging"
# Asks the environment's interpreter: its version, site-packages, and where its libpython lies.
_PROBE = (
    "import sys, sysconfig as s;"
    "print('%d.%d' % sys.version_info[:2]);"
    "print(s.get_path('purelib'));"
    "print(s.get_config_var('LIBDIR') or '')"
)


@dataclass(frozen=True, slots=True)
class TritonPorts:
    """The ports of one server, all on the loopback interface; no HTTP front end is opened."""

    grpc: int
    metrics: int


@dataclass(frozen=True, slots=True)
class TritonPython:
    """A Python environment that holds the Triton wheel.

    Attributes:
        version: such as `3.11`.
        site_packages: where its packages are.
        library_dir: where its interpreter's libpython is.
    """

    version: str
    site_packages: Path
    library_dir: Path

    @property
    def server(self) -> Path:
        """The wheel's `tritonserver` folder."""
        return self.site_packages / "pytriton" / "tritonserver"


@dataclass(frozen=True, slots=True)
class ReplicaVariables:
    """What one replica is told by its environment (docs/triton-contract.md)."""

    engine_dir: Path
    status_port: int
    engine: str = "openvino"
    others: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def inspect_python(triton_python: Path) -> TritonPython:
    """Ask the interpreter of a Triton environment where its parts are.

    Raises:
        subprocess.CalledProcessError: it does not run.
    """
    result = subprocess.run(
        [str(triton_python), "-c", _PROBE], check=True, capture_output=True, text=True
    )
    version, site_packages, library_dir = result.stdout.split("\n")[:3]
    return TritonPython(version, Path(site_packages), Path(library_dir))


def prepare_backend(triton_python: Path, target: Path) -> None:
    """Make the backend directory `target` for the environment of the interpreter `triton_python`.

    The wheel keeps one stub per Python version outside the backend; the server looks for it inside,
    and neither program is marked executable. Whatever was in `target` is replaced.

    Raises:
        FileNotFoundError: the environment has no Triton wheel, or no stub for its Python version.
    """
    python = inspect_python(triton_python)
    stub_name = "triton_python_backend_stub"
    stub = python.server / "python_backend_stubs" / python.version / stub_name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(python.server / "backends" / "python", target / "python")
    shutil.copyfile(stub, target / "python" / stub_name)
    for program in (target / "python" / stub_name, python.server / "bin" / "tritonserver"):
        program.chmod(0o755)


def triton_command(
    triton_python: Path,
    backend_dir: Path,
    model_repository: Path,
    ports: TritonPorts,
    *,
    restriction_key: str,
    exit_timeout_s: int = 5,
) -> list[str]:
    """The command line of one server.

    Args:
        triton_python: interpreter of the environment that holds the wheel.
        backend_dir: what `prepare_backend` made.
        model_repository: the folder with the model `completion`.
        ports: where to listen, on the loopback interface.
        restriction_key: a random word; without it no caller may load models, map shared memory
            or change tracing and logging.
        exit_timeout_s: how long SIGTERM waits for requests in flight.
    """
    return [
        str(inspect_python(triton_python).server / "bin" / "tritonserver"),
        f"--model-repository={model_repository}",
        f"--backend-directory={backend_dir}",
        "--model-control-mode=none",
        "--disable-auto-complete-config",
        "--allow-http=false",
        f"--grpc-address={LOOPBACK}",
        f"--grpc-port={ports.grpc}",
        f"--grpc-restricted-protocol={RESTRICTED_PROTOCOLS}:warmline-key={restriction_key}",
        "--allow-metrics=true",
        "--allow-gpu-metrics=false",
        "--allow-cpu-metrics=false",
        f"--metrics-address={LOOPBACK}",
        f"--metrics-port={ports.metrics}",
        f"--exit-timeout-secs={exit_timeout_s}",
        "--log-verbose=0",
        "--log-info=false",
    ]


def triton_environment(
    triton_python: Path, replica: ReplicaVariables, base: Mapping[str, str]
) -> dict[str, str]:
    """The environment of one server: what is harmless of `base`, plus what the server needs.

    The backend's stub starts Python in isolated mode, which ignores PYTHONPATH, and takes the
    first `python3` on PATH for its own: with the environment's first, it works as in that
    environment.
    """
    python = inspect_python(triton_python)
    inherited = {name: base[name] for name in ("HOME", "LANG", "TMPDIR") if name in base}
    libraries = (python.site_packages / "nvidia_pytriton.libs", python.library_dir)
    return {
        **inherited,
        "PATH": f"{triton_python.parent}:{base.get('PATH', '/usr/bin:/bin')}",
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "WARMLINE_ENGINE_DIR": str(replica.engine_dir),
        "WARMLINE_STATUS_PORT": str(replica.status_port),
        "WARMLINE_ENGINE": replica.engine,
        **replica.others,
    }
