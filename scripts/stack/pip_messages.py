"""What pip's output says: how far it is, and, when it failed, what a person can do about it."""

import re
from typing import NamedTuple

_COLLECTING = re.compile(r"^\s*Collecting ", re.MULTILINE)
_REQUIREMENT = re.compile(r"^[A-Za-z0-9]", re.MULTILINE)


class _Remedy(NamedTuple):
    pattern: str
    text: str


_REMEDIES = (
    _Remedy(
        r"DO NOT MATCH THE HASHES",
        "The package index served other files than the locked ones. Check the index and proxy that "
        "`pip config list` shows, then run the command again.",
    ),
    _Remedy(
        r"No space left on device|Disk quota exceeded",
        "Free some disk space (also where temporary files go: TMPDIR), then run the command again.",
    ),
    _Remedy(
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "The package index's certificate was not accepted. Give pip your certificate authority "
        "(`pip config set global.cert FILE`), then run the command again.",
    ),
    _Remedy(
        r"ProxyError|NewConnectionError|NameResolutionError|name resolution|ConnectTimeout"
        r"|ReadTimeout|Network is unreachable|Connection refused|Connection reset",
        "The package index could not be reached. Check the network and the index that "
        "`pip config list` shows, then run the command again.",
    ),
    _Remedy(
        r"No matching distribution found|Could not find a version",
        "The package index has no such file for this Python and platform. Use CPython 3.11 to 3.13 "
        "on x86-64 Linux, or point pip at an index that has it (`pip config list`).",
    ),
    _Remedy(
        r"ensurepip is not available|No module named ensurepip",
        "This Python cannot make virtual environments. Install its venv package (Debian, Ubuntu: "
        "apt install python3-venv, or python3.x-venv for that version).",
    ),
    _Remedy(
        r"gcc|g\+\+|cc1|Failed building wheel|Python\.h|subprocess-exited-with-error",
        "A package had to be compiled and could not be. Install a compiler and Python's headers "
        "(Debian, Ubuntu: apt install build-essential python3-dev), or use CPython 3.11 to 3.13, "
        "for which ready-made files exist.",
    ),
)


def requirements_in(lock: str) -> int:
    """Count the requirements of a lock file's text, those of other platforms included."""
    return len(_REQUIREMENT.findall(lock))


def collected_in(output: str) -> int:
    """Count the packages that pip has begun to fetch."""
    return len(_COLLECTING.findall(output))


def remedy_for(output: str) -> str:
    """Return the next step for a failed install, from the end of its output."""
    for remedy in _REMEDIES:
        if re.search(remedy.pattern, output):
            return remedy.text
    return "Run the command again; if it fails the same way, the log above says where."


def last_lines(output: str, count: int = 6) -> str:
    """Return the last lines that say something, indented for a message."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-count:])
