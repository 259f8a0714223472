"""Which processes make up a stack, with their commands, environments and documents.

They are three groups, and priorities say in which order these go down, the highest first: the
edge, then what it calls, then what that calls. Each group costs the supervisor about a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from control_plane import bootstrap
from control_plane.topology import Address
from scripts.stack.documents import measurement_settings, to_yaml, topology, worker_settings
from scripts.stack.layout import (
    ADDRESS,
    REPLICA_GROUP,
    RunFolder,
    StackConfig,
    ports_of,
    replica_name,
    worker_name,
)
from scripts.stack.paths import ROOT, Programs
from scripts.stack.supervisord import Program
from scripts.stack.triton_command import (
    ReplicaVariables,
    TritonPorts,
    triton_command,
    triton_environment,
)

ENVOY_NODE = "envoy-local"
TRITON_EXIT_S = 5
"""How long Triton waits for live requests after SIGTERM; longer than any deadline."""


@dataclass(frozen=True)
class StackPlan:
    """Everything that a start writes and runs."""

    files: Mapping[Path, str]
    programs: tuple[Program, ...]


def plan_of(
    config: StackConfig, installed: Programs, folder: RunFolder, restriction_key: str
) -> StackPlan:
    """Return the plan; `restriction_key` closes Triton's administrative calls to others."""
    workers = range(config.workers)
    return StackPlan(
        files={
            folder.topology: to_yaml(topology(config)),
            folder.bootstrap: _bootstrap(config),
            folder.measurement_settings: to_yaml(measurement_settings(config)),
            **{
                folder.worker_settings(worker_name(index)): to_yaml(worker_settings(config, index))
                for index in workers
            },
        },
        programs=(
            *(
                _replica(config, installed, folder, index, restriction_key)
                for index in range(config.replicas)
            ),
            _control_plane(installed, folder),
            *(_worker(installed, folder, worker_name(index)) for index in workers),
            _measurement(installed, folder),
            _envoy(config, installed, folder),
        ),
    )


def _bootstrap(config: StackConfig) -> str:
    ports = ports_of(config)
    return bootstrap.render(
        ENVOY_NODE,
        Address(address=ADDRESS, port=ports.control_plane),
        Address(address=ADDRESS, port=ports.envoy_admin),
    )


def _replica(
    config: StackConfig, installed: Programs, folder: RunFolder, index: int, restriction_key: str
) -> Program:
    ports, name = ports_of(config), replica_name(index)
    command = triton_command(
        installed.triton_python,
        folder.backend,
        ROOT / "model_repository",
        TritonPorts(grpc=ports.replicas[index], metrics=ports.replica_metrics[index]),
        restriction_key=restriction_key,
        exit_timeout_s=TRITON_EXIT_S,
    )
    prefix = f"{folder.shared_memory_prefix()}{index}-"
    trace = {"WARMLINE_TRACE_FILE": str(folder.trace_of(name))} if config.trace else {}
    variables = ReplicaVariables(
        engine_dir=Path(config.engine_dir),
        status_port=ports.replica_status[index],
        engine=config.engine,
        others={
            "WARMLINE_CACHE_BYTES": str(config.cache_mib * 2**20),
            **trace,
            **dict(config.replica_variables),
        },
    )
    return Program(
        name=name,
        group=REPLICA_GROUP,
        priority=10,
        command=[*command, f"--backend-config=python,shm-region-prefix-name={prefix}"],
        environment=triton_environment(installed.triton_python, variables, base={}),
        log=folder.log_of(name),
        stop_wait_s=TRITON_EXIT_S + 10,
    )


def _control_plane(installed: Programs, folder: RunFolder) -> Program:
    return Program(
        name="control-plane",
        group="plane",
        priority=20,
        command=_module(installed, "control_plane.main", "--topology", folder.topology),
        log=folder.log_of("control-plane"),
    )


def _worker(installed: Programs, folder: RunFolder, name: str) -> Program:
    return Program(
        name=name,
        group="plane",
        priority=20,
        command=_module(installed, "orchestrator.main", "--settings", folder.worker_settings(name)),
        log=folder.log_of(name),
    )


def _measurement(installed: Programs, folder: RunFolder) -> Program:
    return Program(
        name="measurement",
        group="plane",
        priority=20,
        command=_module(
            installed, "orchestrator.measurement.main", "--settings", folder.measurement_settings
        ),
        log=folder.log_of("measurement"),
    )


def _envoy(config: StackConfig, installed: Programs, folder: RunFolder) -> Program:
    return Program(
        name="envoy",
        group="edge",
        priority=30,
        command=[
            str(installed.envoy),
            *("--config-path", str(folder.bootstrap)),
            *("--concurrency", str(config.envoy_threads)),
            *("--log-level", "warning"),
            "--disable-hot-restart",  # two Envoys on one machine would share its memory
        ],
        log=folder.log_of("envoy"),
    )


def _module(installed: Programs, module: str, option: str, path: Path) -> list[str]:
    return [str(installed.plane_python), "-m", module, option, str(path)]
