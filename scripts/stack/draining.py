"""Takes a replica out of service and brings it back, without an error for anyone.

The rule: it may be interrupted anywhere and repeated. The control plane holds the state, the
supervisor the process; `standing` says both.
"""

import http.client
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from scripts.stack import probe
from scripts.stack.errors import StackError
from scripts.stack.layout import RunFolder, StackConfig
from scripts.stack.placement import Place, change, slot_state
from scripts.stack.running import READY_LIMIT_S, log_excerpt, supervise, supervisor_of
from scripts.stack.supervisor import LIVE_STATES, STOPPED_STATES

LOOK_EVERY_S = 0.2
CONTROL_PLANE_LIMIT_S = 15.0

Say = Callable[[str], None]


def drain(
    config: StackConfig,
    folder: RunFolder,
    place: Place,
    *,
    force: bool,
    deadline_s: float | None,
    keep_running: bool,
    say: Say,
) -> str:
    """Drain a replica and stop it; return what came of it.

    Raises `StackError` when it is refused, or when something does not answer.
    """
    slot = change(config, place, "drain", force=force, deadline_s=deadline_s)
    if process_state(folder, place) in LIVE_STATES:
        slot = _wait_drained(config, folder, place, say)
    outcome = _outcome(place, slot)
    if keep_running:
        return f"{outcome}; it runs on. scripts/undrain {place.name} lets it serve again."
    if process_state(folder, place) not in STOPPED_STATES:
        say(f"{place.name}: stopping")
        supervise(folder, place.name, "stop", STOPPED_STATES)
    return f"{outcome} and is stopped. scripts/undrain {place.name} brings it back."


def _wait_drained(config: StackConfig, folder: RunFolder, place: Place, say: Say) -> dict[str, Any]:
    """Show what is live until the control plane says that it is over, or the process ends."""
    pause = threading.Event()
    while (slot := _patient_state(config, place))["state"] == "draining":
        say(_progress(place, slot))
        if process_state(folder, place) in STOPPED_STATES:
            break
        pause.wait(LOOK_EVERY_S)
    return slot


def _patient_state(config: StackConfig, place: Place) -> dict[str, Any]:
    """`slot_state` that lets the supervisor start a dead control plane again: it goes on there."""
    pause, until = threading.Event(), time.monotonic() + CONTROL_PLANE_LIMIT_S
    while True:
        try:
            return slot_state(config, place)
        except StackError:
            if time.monotonic() >= until:
                raise
        pause.wait(LOOK_EVERY_S)


def _progress(place: Place, slot: dict[str, Any]) -> str:
    live, waiting = (
        "?" if slot[key] is None else slot[key] for key in ("live_sequences", "waiting_sequences")
    )
    left = (slot["drain"] or {}).get("seconds_left", 0)
    return f"{place.name}: draining, {live} live, {waiting} waiting, at most {left:.0f} s"


def _outcome(place: Place, slot: dict[str, Any]) -> str:
    drain = slot["drain"] or {}
    if slot["state"] != "drained":
        return f"{place.name} does not run, so nothing had to end; it is draining"
    if drain["ended_by"] == "deadline":
        left = "an unknown number" if drain["sequences_left"] is None else drain["sequences_left"]
        return f"{place.name} is drained: the deadline ended it with {left} live"
    return f"{place.name} is drained after {drain['took_s']:.1f} s"


def undrain(config: StackConfig, folder: RunFolder, place: Place, say: Say) -> str:
    """Start a replica where it is stopped, wait until it is ready, and let it serve again.

    Returns what came of it; raises `StackError` when it does not come up.
    """
    if process_state(folder, place) in STOPPED_STATES:
        say(f"{place.name}: starting")
        supervise(folder, place.name, "start", LIVE_STATES | {"BACKOFF"})
    _wait_healthy(folder, place, say)
    slot = change(config, place, "undrain")
    ramp = slot["ramp"]
    if ramp is None:
        return f"{place.name} serves at its full weight."
    return (
        f"{place.name} serves again, at {ramp['percent']} % of its weight; "
        f"all of it in {ramp['seconds_left']:.0f} s. scripts/status shows the way."
    )


def _wait_healthy(folder: RunFolder, place: Place, say: Say) -> None:
    pause, until = threading.Event(), time.monotonic() + READY_LIMIT_S
    while (health := _health(place)) != "ready":
        say(f"{place.name}: {health}")
        if process_state(folder, place) == "FATAL" or time.monotonic() >= until:
            raise StackError(
                f"{place.name} does not come up within {READY_LIMIT_S:.0f} s ({health}). The end "
                f"of its log:\n{log_excerpt(folder, place.name)}",
                "It stays drained. Mend what the log says, then run the command again.",
            )
        pause.wait(LOOK_EVERY_S)


def _health(place: Place) -> str:
    with suppress(OSError, http.client.HTTPException):
        status, body = probe.get(place.status_port, "/healthz")
        return "ready" if status == http.client.OK else body.decode("utf-8", "replace").strip()
    return "not listening yet"


def process_state(folder: RunFolder, place: Place) -> str:
    """Return the supervisor's word for the process; "ABSENT" when there is none."""
    infos = supervisor_of(folder).processes()
    return next((info.state for info in infos if info.name == place.name), "ABSENT")


def standing(config: StackConfig, folder: RunFolder, place: Place) -> str:
    """Return where an interrupted drain or undrain stands, and how to go on."""
    try:
        placement = str(slot_state(config, place)["state"])
    except StackError:
        placement = "in a state that the control plane keeps but does not tell now"
    return (
        f"{place.name} is {placement}; its process is {process_state(folder, place).lower()}. "
        f"scripts/drain {place.name} goes on with a drain, scripts/undrain {place.name} takes it "
        "back."
    )
