"""Renders the configuration of `supervisord` (PyPI `supervisor` 4.3), which keeps processes alive.

Pure. Groups are stopped one after the other, the highest priority first, so priorities say in which
order a stack goes down: the edge before what serves it.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.stack.errors import StackError

START_RETRIES = 10
"""Quick deaths in a row before the supervisor gives up; it waits one second more each time."""
LOG_BYTES_MAX = "5MB"
LOG_BACKUPS = 2


@dataclass(frozen=True)
class Program:
    """One process to keep alive."""

    name: str
    group: str
    priority: int
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    start_s: int = 1  # alive that long = started; dying earlier is a quick death
    stop_wait_s: int = 10  # from SIGTERM to SIGKILL


def render(state: Path, socket: Path, log: Path, programs: Iterable[Program]) -> str:
    """Return the configuration; `state` takes the process id file.

    Raises `StackError` for paths that the file format cannot hold.
    """
    programs = list(programs)
    sections = [
        _section("unix_http_server", {"file": _value(str(socket)), "chmod": "0700"}),
        _section("supervisord", _daemon(state, log)),
        _section(
            "rpcinterface:supervisor",
            {"supervisor.rpcinterface_factory": ("supervisor.rpcinterface:make_main_rpcinterface")},
        ),
        *(_section(f"program:{program.name}", _program(program)) for program in programs),
        *(_section(f"group:{name}", fields) for name, fields in _groups(programs)),
    ]
    return "\n".join(sections)


def _daemon(state: Path, log: Path) -> dict[str, str]:
    return {
        "umask": "077",
        "directory": _value(str(state)),
        "pidfile": _value(str(state / "supervisord.pid")),
        "logfile": _value(str(log)),
        "logfile_maxbytes": "1MB",
        "logfile_backups": "1",
    }


def _program(program: Program) -> dict[str, str]:
    return {
        "command": _value(shlex.join(program.command)),
        "environment": ",".join(
            f'{name}="{_quoted(value)}"' for name, value in sorted(program.environment.items())
        ),
        "autorestart": "true",
        "startsecs": str(program.start_s),
        "startretries": str(START_RETRIES),
        "stopsignal": "TERM",
        "stopwaitsecs": str(program.stop_wait_s),
        "stopasgroup": "false",  # a parent stops its own children in order
        "killasgroup": "true",  # but nothing of it may stay
        "redirect_stderr": "true",
        # The supervisor expands this one value twice (options.py, processes_from_section).
        "stdout_logfile": _value(_value(str(program.log))),
        "stdout_logfile_maxbytes": LOG_BYTES_MAX,
        "stdout_logfile_backups": str(LOG_BACKUPS),
    }


def _groups(programs: Sequence[Program]) -> Iterable[tuple[str, dict[str, str]]]:
    for name in dict.fromkeys(program.group for program in programs):
        members = [program for program in programs if program.group == name]
        yield (
            name,
            {
                "programs": ",".join(member.name for member in members),
                "priority": str(members[0].priority),
            },
        )


def _section(name: str, fields: Mapping[str, str]) -> str:
    lines = [f"{key}={value}" for key, value in fields.items() if value]
    return "\n".join([f"[{name}]", *lines, ""])


def _quoted(text: str) -> str:
    if '"' in text:
        raise StackError(
            f"The path {text} has a quotation mark, which the supervisor cannot take.",
            "Move it to a folder without one.",
        )
    return _value(text)


def _value(text: str) -> str:
    """Escape one value; the format takes ` ;` and ` #` for comments and has no escape for them."""
    for sign in (" ;", " #", "\n"):
        if sign in text:
            raise StackError(
                f"A path has {sign!r} in it, which the supervisor's configuration cannot hold.",
                "Move the checkout, or the run folder (--run-dir), to a path without it.",
            )
    return text.replace("%", "%%")
