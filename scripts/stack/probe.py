"""Small HTTP questions to the processes of a stack. Standard library only; no proxy is used."""

import http.client
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scripts.stack.layout import ADDRESS
from scripts.stack.readiness import Health, HealthCheck

TIMEOUT_S = 2.0
DETAIL_CHARACTERS_MAX = 160


def get(port: int, path: str, timeout_s: float = TIMEOUT_S) -> tuple[int, bytes]:
    """Return status and body. Raises OSError or HTTPException when nobody answers."""
    return _request(port, "GET", path, timeout_s)


def post(
    port: int, path: str, body: bytes = b"", timeout_s: float = TIMEOUT_S
) -> tuple[int, bytes]:
    """Send a POST; return status and body. Raises as `get` does."""
    return _request(port, "POST", path, timeout_s, body)


def _request(
    port: int, method: str, path: str, timeout_s: float, body: bytes | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=timeout_s)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def ask_all(checks: Iterable[HealthCheck]) -> dict[str, Health]:
    """Ask every process for its health, all at once."""
    checks = list(checks)
    with ThreadPoolExecutor(max_workers=max(1, len(checks))) as pool:
        answers = pool.map(_ask, checks)
        return {check.process: answer for check, answer in zip(checks, answers, strict=True)}


def _ask(check: HealthCheck) -> Health:
    try:
        status, body = get(check.port, check.path)
    except ConnectionRefusedError:
        return Health(ready=False, detail="not listening yet")
    except (OSError, http.client.HTTPException) as error:
        return Health(ready=False, detail=type(error).__name__)
    text = " ".join(body.decode("utf-8", "replace").split())[:DETAIL_CHARACTERS_MAX]
    return Health(ready=status == http.client.OK, detail=f"{status} {text}".strip())


def slots(control_plane_status_port: int) -> dict[str, dict[str, Any]]:
    """Return what the control plane says of each slot, or nothing when it does not answer."""
    try:
        status, body = get(control_plane_status_port, "/v1/replicas")
        answer = json.loads(body) if status == http.client.OK else {}
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    return {slot["slot"]: slot for slot in answer.get("slots", [])}


def replica_load(status_port: int) -> dict[str, Any]:
    """Return a replica's /load, or nothing when it does not answer."""
    try:
        status, body = get(status_port, "/load")
        load = json.loads(body) if status == http.client.OK else {}
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    return load if isinstance(load, dict) else {}
