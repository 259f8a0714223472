"""Reads what preflight judges: system, Python, disk, memory, ports. Standard library only."""

import errno
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.stack.layout import ADDRESS

LISTENING = "0A"
"""State of a listening socket in /proc/net/tcp."""


@dataclass(frozen=True)
class MachineFacts:
    """One look at the machine."""

    system: str
    architecture: str
    libc: str
    libc_version: tuple[int, ...]
    python_version: tuple[int, int]
    libpython: str | None  # path of the shared library of this Python
    disk_free_mib: int
    shared_memory_free_mib: int
    memory_available_mib: int
    ports_taken: Mapping[int, str]  # to who holds it, in words


def look(disk_at: Path, ports: Iterable[int]) -> MachineFacts:
    """Look at this machine; `disk_at` is the folder whose disk counts (its parent may be new)."""
    libc, version = platform.libc_ver()
    return MachineFacts(
        system=platform.system(),
        architecture=platform.machine(),
        libc=libc,
        libc_version=tuple(int(part) for part in re.findall(r"\d+", version)),
        python_version=sys.version_info[:2],
        libpython=find_libpython(),
        disk_free_mib=_free_mib(disk_at),
        shared_memory_free_mib=_free_mib(Path("/dev/shm")),  # noqa: S108 - Triton's own place, not a temporary file of ours
        memory_available_mib=memory_available_mib(Path("/proc/meminfo").read_text()),
        ports_taken=ports_taken(ports),
    )


def find_libpython() -> str | None:
    """Return the path of `libpython3.x.so.1.0`, which Triton's Python stub links to."""
    name = libpython_name()
    folders = [sysconfig.get_config_var("LIBDIR"), f"{sys.base_prefix}/lib"]
    for folder in folders:
        if folder and (Path(folder) / name).exists():
            return str(Path(folder) / name)
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if ldconfig is None:
        return None
    listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    found = re.search(rf"^\s*{re.escape(name)} .*=> (\S+)", listing, re.MULTILINE)
    return found[1] if found else None


def libpython_name() -> str:
    """Return the file name of this Python's shared library."""
    return f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"


def _free_mib(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free // 2**20


def memory_available_mib(meminfo: str) -> int:
    """Read the memory that can be had without swapping from the text of /proc/meminfo."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def ports_taken(ports: Iterable[int]) -> dict[int, str]:
    """Return the ports of `ports` that cannot be listened on, with who holds each."""
    taken = [port for port in ports if not can_listen(port)]
    holders = _holders(taken) if taken else {}
    return {port: holders.get(port, "another process") for port in taken}


def can_listen(port: int) -> bool:
    """Say whether a process of this user could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def _holders(ports: Iterable[int]) -> dict[int, str]:
    tables = ""
    for name in ("tcp", "tcp6"):
        table = Path("/proc/net") / name
        tables += table.read_text() if table.exists() else ""
    inodes = listening_inodes(tables, set(ports))
    return {inodes[inode]: who for inode, who in _owners(set(inodes)).items()}


def listening_inodes(tables: str, ports: set[int]) -> dict[str, int]:
    """Map the socket inodes that listen on one of `ports` to it; `tables` as in /proc/net/tcp."""
    found = {}
    for line in tables.splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[3] == LISTENING:
            port = int(fields[1].rpartition(":")[2], 16)
            if port in ports:
                found[fields[9]] = port
    return found


def _owners(inodes: set[str]) -> dict[str, str]:
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    owners = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            targets = [str(entry.readlink()) for entry in (process / "fd").iterdir()]
            name = (process / "comm").read_text().strip()
        except OSError:
            continue  # it has ended, or belongs to somebody else
        for target in targets:
            if target in wanted:
                owners[wanted[target]] = f"process {process.name} ({name})"
    return owners
