"""Turns what is known of a stack into a table. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.stack.readiness import ProcessView

_SPAWNED = re.compile(r"spawned: '([^']+)' with pid \d+")
_BEGINS = "supervisord started with pid"


def restarts(supervisor_log: Sequence[str]) -> dict[str, int]:
    """Count how often each process was started again since the supervisor began."""
    counts: dict[str, int] = {}
    for line in supervisor_log:
        if _BEGINS in line:
            counts = {}
        elif found := _SPAWNED.search(line):
            counts[found[1]] = counts.get(found[1], -1) + 1
    return counts


def document(
    views: Sequence[ProcessView],
    restarted: Mapping[str, int],
    loads: Mapping[str, Mapping[str, Any]],
    now_s: float,
    placements: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the status as JSON data.

    `loads` holds each replica's /load, `placements` what the control plane says of its slot. A
    replica that was stopped on purpose does not keep the stack from being ready.
    """
    return {
        "running": any(view.state != "ABSENT" for view in views),
        "ready": all(view.ready or view.is_parked for view in views),
        "processes": [
            {
                "name": view.name,
                "state": view.state,
                "ready": view.ready,
                "detail": view.detail,
                "pid": view.pid,
                "uptime_s": round(now_s - view.started_s) if view.pid else 0,
                "restarts": restarted.get(view.name, 0),
                "address": view.address,
            }
            for view in views
        ],
        "replicas": [
            {"name": name, "load": dict(load), "placement": dict((placements or {}).get(name, {}))}
            for name, load in loads.items()
        ],
    }


def table(status: Mapping[str, Any]) -> str:
    """Return the status for a person."""
    rows = [("process", "state", "uptime", "pid", "restarts", "address")]
    for process in status["processes"]:
        state = "ready" if process["ready"] else process["state"].lower()
        pid, uptime = str(process["pid"] or "-"), _duration(process["uptime_s"])
        rows.append(
            (process["name"], state, uptime, pid, str(process["restarts"]), process["address"])
        )
    faults = [
        f"{process['name']}: {process['detail']}"
        for process in status["processes"]
        if process["detail"]
    ]
    return "\n".join([_aligned(rows), "", _aligned(_load_rows(status["replicas"])), *faults])


def _load_rows(replicas: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            *("replica", "placement", "live", "waiting", "step ms"),
            *("sessions", "cache", "prompt from cache"),
        )
    ]
    for replica in replicas:
        load = replica["load"]
        used, total = load.get("cache_blocks_used", 0), load.get("cache_blocks_total", 0)
        cached = load.get("prompt_tokens_cached_total", 0)
        prompt = cached + load.get("prompt_tokens_computed_total", 0)
        rows.append(
            (
                replica["name"],
                _placement(replica["placement"]),
                str(load.get("live_sequences", "-")),
                str(load.get("waiting_sequences", "-")),
                f"{load['step_us'] / 1000:.1f}" if load.get("step_us") else "-",
                str(load.get("warm_sessions", "-")),
                _percent(used, total),
                _percent(cached, prompt),
            )
        )
    return rows


def _placement(slot: Mapping[str, Any]) -> str:
    ramp = slot.get("ramp")
    return f"{ramp['percent']} %" if ramp else str(slot.get("state", "-"))


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _duration(seconds: int) -> str:
    if seconds <= 0:
        return "-"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    shown = [f"{value} {unit}" for value, unit in parts if value]
    return " ".join(shown[:2])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
