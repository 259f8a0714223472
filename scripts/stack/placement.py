"""Asks the control plane to drain and undrain slots. Standard library only; no proxy is used."""

import http.client
import json
from dataclasses import dataclass
from typing import Any, Literal

from scripts.stack import probe
from scripts.stack.errors import StackError
from scripts.stack.layout import StackConfig, ports_of, replica_name, slot_name

SEE_LOGS = "scripts/status and scripts/logs control-plane say more; Envoy serves on meanwhile."


@dataclass(frozen=True)
class Place:
    """One replica of a stack: its process, its slot and the port of its health."""

    name: str
    slot: str
    status_port: int


def place_of(config: StackConfig, wanted: str) -> Place:
    """Return the replica called `wanted`, by process or slot. Raises `StackError`."""
    ports = ports_of(config).replica_status
    places = [Place(replica_name(i), slot_name(i), port) for i, port in enumerate(ports)]
    for place in places:
        if wanted in (place.name, place.slot):
            return place
    known = ", ".join(place.name for place in places)
    raise StackError(f"There is no replica {wanted!r}.", f"Choose from: {known}.")


def slot_state(config: StackConfig, place: Place) -> dict[str, Any]:
    """Return what the control plane says of a slot; raises `StackError` when it does not answer."""
    slots = probe.slots(ports_of(config).control_plane_status)
    if place.slot not in slots:
        raise StackError("The control plane does not answer.", SEE_LOGS)
    return slots[place.slot]


def change(
    config: StackConfig, place: Place, what: Literal["drain", "undrain"], **options: object
) -> dict[str, Any]:
    """Drain or undrain; return the slot as it is then.

    Raises `StackError` with the control plane's own words when it refuses or does not answer.
    """
    path = f"/v1/replicas/{place.slot}/{what}"
    try:
        port = ports_of(config).control_plane_status
        status, body = probe.post(port, path, json.dumps(options).encode())
        answer = json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise StackError(
            f"The control plane does not answer ({type(error).__name__}).", SEE_LOGS
        ) from None
    if status != http.client.OK:
        what_is, _, next_step = str(answer["error"]["message"]).partition("; ")
        raise StackError(f"{place.name}: {what_is}.", f"{next_step[:1].upper()}{next_step[1:]}.")
    slot: dict[str, Any] = answer
    return slot
