"""Resident memory and quiet of a running stack, for benches that look for leaks."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import psutil

from scripts.stack.api import RunningStack

MIB = 1024 * 1024


def resident_mib(stack: RunningStack) -> dict[str, float]:
    """Resident memory of each process of the stack with its children, in MiB, by name."""
    found = {}
    for name, pid in stack.pids().items():
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        found[name] = sum(member.memory_info().rss for member in family) / MIB
    return found


def load_of(status_url: str) -> dict[str, Any]:
    """What a replica reports of itself now."""
    with urllib.request.urlopen(f"{status_url}/load", timeout=5) as answer:  # noqa: S310 - a loopback address of our own
        loaded: dict[str, Any] = json.load(answer)
        return loaded


def is_quiet(stack: RunningStack) -> bool:
    """Whether no replica holds a sequence, live or waiting."""
    loads = (load_of(replica.status_url) for replica in stack.replicas)
    return all(not load["live_sequences"] and not load["waiting_sequences"] for load in loads)


async def until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Whether the condition came true within the limit; looks every few milliseconds."""
    end_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        await asyncio.sleep(0.005)
    return True
