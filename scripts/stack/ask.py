"""Sends one completion request to a stack. Standard library only; no proxy is used."""

import http.client
import json
import secrets
from typing import Any
from urllib.parse import urlsplit

from scripts.stack.answer import Cut, Place, request_body
from scripts.stack.errors import StackError

TIMEOUT_S = 30.0
CLIENT = "warmline-scripts/1"
PATH = "/v1/inline-completions"


def complete(
    url: str,
    place: Place,
    document: Cut,
    *,
    mode: str = "auto",
    deadline_ms: int | None = None,
    installation: str = "scripts-complete",
) -> dict[str, Any]:
    """Return the answer of the stack whose edge is at `url`.

    Raises `StackError` when nobody answers there, or when the answer is not a completion.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise StackError(
            f"{url!r} is no http:// address.", "Name one: --url http://127.0.0.1:8080."
        )
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT_S)
    body = request_body(place, document, mode, deadline_ms, installation)
    headers = {"content-type": "application/json", "x-client": CLIENT}
    try:
        connection.request("POST", PATH, body, headers)
        response = connection.getresponse()
        return _answer(response.status, response.read(), url)
    except (OSError, http.client.HTTPException) as error:
        raise StackError(
            f"Nobody answers at {url} ({type(error).__name__}).",
            "Start the stack with scripts/up, or name another with --url; scripts/status says "
            "what runs.",
        ) from None
    finally:
        connection.close()


def _answer(status: int, body: bytes, url: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if status != http.client.OK or not isinstance(answer, dict):
        words = body[:500].decode("utf-8", "replace").strip()
        raise StackError(
            f"{url} answered {status} instead of 200: {words}",
            "scripts/status and scripts/logs say what is wrong with the stack.",
        )
    return answer


def new_installation() -> str:
    """Return an installation id that no request has used, so that nothing of it is cached."""
    return f"scripts-{secrets.token_hex(8)}"
