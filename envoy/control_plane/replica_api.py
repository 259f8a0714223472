"""The API for drains, on the status listener: what `scripts/drain` and a cluster's hooks call.

    GET  /v1/replicas
    POST /v1/replicas/SLOT/drain    {"force": false, "deadline_s": 60}, both optional
    POST /v1/replicas/SLOT/undrain

The rule: only callers of the same machine or network may change anything, and no web page.
"""

import ipaddress
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .drains import PlacementError, UnknownSlotError
from .fleet import Fleet
from .fleet_view import describe_pools, describe_slots
from .state_file import StateError
from .topology import Seconds, Strict

BODY_BYTES_MAX: Final = 4096


class DrainOptions(Strict, frozen=True):
    """The body of a drain; without `deadline_s` the topology's `drain.deadline_s` counts."""

    force: bool = False
    deadline_s: Seconds | None = None


def describe(fleet: Fleet, now_s: float) -> dict[str, Any]:
    """The slots and pools as they are in force."""
    situation = fleet.situation(now_s)
    return {
        "slots": describe_slots(situation, fleet.effective),
        "pools": describe_pools(situation, fleet.effective, fleet.bounds),
    }


def routes(fleet: Fleet) -> list[Route]:
    """The API's routes."""

    async def replicas(_request: Request) -> Response:
        return JSONResponse(describe(fleet, time.time()))

    async def drain(request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _error(413, "body", f"a body may have {BODY_BYTES_MAX} bytes; send less")
        try:
            options = msgspec.json.decode(body or b"{}", type=DrainOptions)
        except msgspec.MsgspecError as error:
            return _error(
                400, "body", f"the body must be force and deadline_s as JSON: {error}; correct it"
            )
        slot, now_s = request.path_params["slot"], time.time()

        def change() -> None:
            fleet.drain(slot, force=options.force, deadline_s=options.deadline_s, now_s=now_s)

        return _changed(request, fleet, slot, change)

    async def undrain(request: Request) -> Response:
        slot, now_s = request.path_params["slot"], time.time()
        return _changed(request, fleet, slot, lambda: fleet.undrain(slot, now_s=now_s))

    return [
        Route("/v1/replicas", replicas),
        Route("/v1/replicas/{slot}/drain", drain, methods=["POST"]),
        Route("/v1/replicas/{slot}/undrain", undrain, methods=["POST"]),
    ]


def _changed(request: Request, fleet: Fleet, slot: str, change: Callable[[], None]) -> Response:
    """Change and answer with the slot as it is then."""
    if not _may_change(request):
        return _error(
            403,
            "caller",
            "changes are taken from loopback and private addresses and not from web pages; "
            "call from inside",
        )
    try:
        change()
    except UnknownSlotError as error:
        return _error(404, error.reason, str(error))
    except PlacementError as error:
        return _error(409, error.reason, str(error))
    except StateError as error:
        return _error(503, "state", str(error))
    seen = describe(fleet, time.time())["slots"]
    return JSONResponse(next(each for each in seen if each["slot"] == slot))


def _may_change(request: Request) -> bool:
    """Browsers send Origin with every POST, so what has one comes from a page."""
    if request.client is None or "origin" in request.headers:
        return False
    try:
        caller = ipaddress.ip_address(request.client.host)
    except ValueError:
        return False
    return caller.is_private and not caller.is_unspecified


async def _body(request: Request) -> bytes | None:
    """The body, or None where it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            return None
    return body


def _error(status: int, reason: str, message: str) -> Response:
    return JSONResponse({"error": {"reason": reason, "message": message}}, status_code=status)
