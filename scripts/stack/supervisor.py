"""Talks to a stack's supervisor over its unix socket, and starts it. Standard library only."""

import http.client
import os
import resource
import socket
import subprocess
import xmlrpc.client
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.stack.errors import StackError

TIMEOUT_S = 5.0
LAUNCH_TIMEOUT_S = 30.0
LIVE_STATES = frozenset({"STARTING", "RUNNING"})
STOPPED_STATES = frozenset({"STOPPED", "EXITED", "FATAL"})
_ABSENT = (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, TimeoutError)
_SHUTTING_DOWN = 6  # supervisor.xmlrpc.Faults.SHUTDOWN_STATE


@dataclass(frozen=True)
class ProcessInfo:
    """What the supervisor knows of one process."""

    name: str
    group: str
    state: str  # STARTING, RUNNING, BACKOFF, STOPPING, STOPPED, EXITED, FATAL, UNKNOWN
    pid: int  # 0 when it does not run
    started_s: int  # epoch
    exit_status: int
    spawn_error: str

    @property
    def full_name(self) -> str:
        """Name that the supervisor's methods take."""
        return f"{self.group}:{self.name}"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _UnixTransport(xmlrpc.client.Transport):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def make_connection(
        self, host: Any
    ) -> http.client.HTTPConnection:  # the base class leaves the type of `host` open
        return _UnixConnection(self._path)


class Supervisor:
    """The supervisor that listens on one socket; every method asks it anew."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = str(socket_path)

    def is_running(self) -> bool:
        """Say whether a supervisor listens; one that is shutting down still does."""
        try:
            self._call("getPID")
        except _ABSENT:
            return False
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != _SHUTTING_DOWN:
                raise
        return True

    def processes(self) -> list[ProcessInfo]:
        """Return what it keeps alive, by name; nothing when it does not run or shuts down."""
        try:
            infos: Any = self._call("getAllProcessInfo")  # XML-RPC answers are untyped
        except _ABSENT:
            return []
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != _SHUTTING_DOWN:
                raise
            return []
        return [_info(info) for info in sorted(infos, key=lambda info: str(info["name"]))]

    def stop(self, full_name: str) -> None:
        """Stop one process or `group:*` without waiting for its end."""
        if full_name.endswith(":*"):
            self._call("stopProcessGroup", full_name.removesuffix(":*"), False)
        else:
            self._call("stopProcess", full_name, False)

    def start(self, full_name: str) -> None:
        """Start one stopped process without waiting for it to be up."""
        self._call("startProcess", full_name, False)

    def shutdown(self) -> None:
        """Stop everything in order, then the supervisor itself, without waiting."""
        try:
            self._call("shutdown")
        except _ABSENT:
            return
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != _SHUTTING_DOWN:
                raise

    def _call(self, method: str, *arguments: object) -> object:
        proxy = xmlrpc.client.ServerProxy(
            "http://localhost/RPC2", transport=_UnixTransport(self._socket_path)
        )
        with proxy:
            result: object = getattr(proxy.supervisor, method)(*arguments)
        return result


def _info(info: Mapping[str, Any]) -> ProcessInfo:
    return ProcessInfo(
        name=info["name"],
        group=info["group"],
        state=info["statename"],
        pid=info["pid"],
        started_s=info["start"],
        exit_status=info["exitstatus"],
        spawn_error=info["spawnerr"],
    )


def launch(python: Path, config: Path, environment: Mapping[str, str]) -> None:
    """Start a supervisor that goes on by itself; its socket is open on return.

    Raises `StackError` with its own words when it does not start.
    """
    result = subprocess.run(
        [str(python), "-m", "supervisor.supervisord", "--configuration", str(config)],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LAUNCH_TIMEOUT_S,
        check=False,
        preexec_fn=_no_core_dumps,
    )
    if result.returncode != 0:
        raise StackError(
            f"The process supervisor did not start:\n{result.stdout.strip()}",
            "Mend what it says, then run the command again.",
        )


def _no_core_dumps() -> None:
    """Forbid core dumps to the children too: they would hold source code.

    One byte, not none: a limit of 0 does not keep the kernel from piping a dump to a handler, and
    1 does (core(5), `do_coredump`).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def clean_environment(environ: Mapping[str, str], python_path: str) -> dict[str, str]:
    """Return the environment that a stack's processes start from.

    An allow-list: a proxy variable would send local gRPC calls to the proxy, and a foreign
    PYTHONPATH would shadow what the locks pinned.
    """
    keep = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "USER")
    kept = {name: environ[name] for name in keep if name in environ}
    return {
        **kept,
        "PYTHONPATH": python_path,
        "PYTHONSAFEPATH": "1",  # the current folder is the caller's, not ours
        "PYTHONUNBUFFERED": "1",
    }


def runtime_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder with a short path where sockets go whose own folder's path is too long."""
    return Path(environ.get("XDG_RUNTIME_DIR") or f"/tmp/warmline-{os.getuid()}")  # noqa: S108 - `make_private` checks its owner and mode


def make_private(folder: Path) -> None:
    """Make a folder that only this user can enter.

    Raises `StackError` where it is there already and belongs to somebody else or is open to others:
    whoever reaches the supervisor's socket can run programs as this user.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise StackError(
            f"{folder} belongs to another user or is open to others.",
            "Name a private folder with XDG_RUNTIME_DIR, or use a --run-dir with a shorter path.",
        )
