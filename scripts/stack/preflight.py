"""Judges whether this machine can run the stack, before anything is installed or started.

Pure: facts and settings in, problems out, all of them at once, each with its remedy.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from scripts.stack.errors import StackError
from scripts.stack.layout import StackConfig, ports_of
from scripts.stack.machine import MachineFacts

GLIBC_MIN = (2, 35)
PYTHON_MIN, PYTHON_MAX = (3, 11), (3, 13)
SHARED_MEMORY_MIB_MIN = 64
"""What each replica's Triton may take in /dev/shm: its Python backend starts small and grows."""
DISK_MIB_MIN = 512
"""Room for engines, logs and traces, besides what the environments need."""
PROCESS_MIB = 120
"""Resident memory of one of our Python processes, and of Envoy: measured and rounded up."""
REPLICA_MIB = 450
"""Resident memory of a replica with the reference model, without its cache."""

_SHELL_SAFE = re.compile(r"[A-Za-z0-9/._+@,=%-]+")

_PACKAGE_OF = {
    "libstdc++.so.6": "libstdc++6",
    "libgcc_s.so.1": "libgcc-s1",
    "libz.so.1": "zlib1g",
    "libexpat.so.1": "libexpat1",
    "libgomp.so.1": "libgomp1",
}


class Problem(NamedTuple):
    """What is wrong, with limit and actual value, and the next step."""

    what: str
    remedy: str


def check_machine(facts: MachineFacts) -> list[Problem]:
    """Return what keeps any stack from running here."""
    return [*_platform(facts), *_python(facts)]


def check_room(facts: MachineFacts, config: StackConfig) -> list[Problem]:
    """Return what this stack lacks in ports, memory and disk."""
    return [*_ports(facts, config), *_memory(facts, config), *_disk(facts, config)]


def check_paths(paths: Mapping[str, str]) -> list[Problem]:
    """Return the paths, by what they are, that Triton cannot work with.

    Its Python backend puts the paths of its stub and of the model into a shell command without
    quotes, and then waits for ever for a stub that was never started (Triton 2.51, tried).
    """
    return [
        Problem(
            f"The path of {what}, {path!r}, has characters that Triton's Python backend cannot "
            "take: it hands paths to a shell without quotes.",
            "Use a path of letters, digits and . _ - + @ , = % only.",
        )
        for what, path in paths.items()
        if not _SHELL_SAFE.fullmatch(path)
    ]


def refuse(problems: Sequence[Problem]) -> None:
    """Raise one `StackError` that names every problem; do nothing where there is none."""
    if not problems:
        return
    if len(problems) == 1:
        raise StackError(*problems[0])
    lines = [f"\n  - {problem.what}\n    {problem.remedy}" for problem in problems]
    raise StackError(
        f"{len(problems)} things are missing:{''.join(lines)}", "Then run the command again."
    )


def _platform(facts: MachineFacts) -> Iterator[Problem]:
    if (facts.system, facts.architecture) != ("Linux", "x86_64"):
        yield Problem(
            f"Warmline runs on x86-64 Linux; this is {facts.system} on {facts.architecture}.",
            "Use such a machine, or a container or virtual machine of that kind.",
        )
    elif facts.libc != "glibc" or facts.libc_version < GLIBC_MIN:
        version = ".".join(str(part) for part in facts.libc_version)
        yield Problem(
            f"Triton needs glibc {_dotted(GLIBC_MIN)} or newer; here is "
            f"{facts.libc or 'another C library'} {version}.".replace(" .", "."),
            "Use a newer distribution: Debian 12, Ubuntu 22.04, Fedora 36 or later.",
        )


def _python(facts: MachineFacts) -> Iterator[Problem]:
    version = _dotted(facts.python_version)
    if not PYTHON_MIN <= facts.python_version <= PYTHON_MAX:
        yield Problem(
            f"Python {_dotted(PYTHON_MIN)} to {_dotted(PYTHON_MAX)} is needed; this is {version}.",
            "Install one, and name it with WARMLINE_PYTHON=PATH if it is not found by itself.",
        )
    elif facts.libpython is None:
        yield Problem(
            f"libpython{version}.so.1.0 is not there; Triton's Python backend links to it.",
            f"Install it (Debian, Ubuntu: apt install libpython{version}; Fedora: dnf install "
            f"python{version}-libs; pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install "
            f"{version}), or name another Python with WARMLINE_PYTHON=PATH and remove var/env.",
        )


def _ports(facts: MachineFacts, config: StackConfig) -> Iterator[Problem]:
    ports = ports_of(config)
    for port, name in ports.named().items():
        if port in facts.ports_taken:
            option = "--port" if port == ports.edge else "--port-base"
            yield Problem(
                f"Port {port} ({name}) is taken by {facts.ports_taken[port]}.",
                f"Stop that, or choose other ports with {option} N.",
            )


def _memory(facts: MachineFacts, config: StackConfig) -> Iterator[Problem]:
    per_replica_mib = REPLICA_MIB + config.cache_mib
    others = config.workers + 4  # Envoy, control plane, measurement, supervisor
    needed_mib = config.replicas * per_replica_mib + others * PROCESS_MIB
    if facts.memory_available_mib < needed_mib:
        yield Problem(
            f"The stack may take {needed_mib} MiB of memory ({config.replicas} replicas with "
            f"{config.cache_mib} MiB of cache each), and {facts.memory_available_mib} MiB are "
            "available.",
            "Free memory, or start a smaller stack: --replicas 1, --cache-mib N.",
        )
    shared_mib = SHARED_MEMORY_MIB_MIN * config.replicas
    if facts.shared_memory_free_mib < shared_mib:
        yield Problem(
            f"{config.replicas} replicas need {shared_mib} MiB free in /dev/shm; there are "
            f"{facts.shared_memory_free_mib} MiB.",
            "Make it larger (a container: docker run --shm-size=256m; else: mount -o "
            "remount,size=256m /dev/shm).",
        )


def _disk(facts: MachineFacts, config: StackConfig) -> Iterator[Problem]:
    if facts.disk_free_mib < DISK_MIB_MIN:
        yield Problem(
            f"{DISK_MIB_MIN} MiB are needed on the disk of {config.run_dir}; {facts.disk_free_mib} "
            "MiB are free.",
            "Free some space there, or choose another folder with --run-dir.",
        )


def check_libraries(program: str, ldd: str) -> list[Problem]:
    """Return the system libraries that `program` lacks, from what `ldd` printed for it."""
    missing = sorted(set(re.findall(r"^\s*(\S+) => not found", ldd, re.MULTILINE)))
    too_old = sorted(set(re.findall(r"version `([^']+)' not found", ldd)))
    packages = [_PACKAGE_OF.get(name, name) for name in missing]
    problems = []
    if missing:
        problems.append(
            Problem(
                f"{program} lacks the system libraries {', '.join(missing)}.",
                f"Install them (Debian, Ubuntu: apt install {' '.join(packages)}).",
            )
        )
    if too_old:
        problems.append(
            Problem(
                f"{program} needs newer system libraries: {', '.join(too_old)} are not there.",
                "Use a newer distribution: Debian 12, Ubuntu 22.04, Fedora 36 or later.",
            )
        )
    return problems


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
