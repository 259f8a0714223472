"""How this project serves ASGI: one place for the server's settings and its clean stop."""

from __future__ import annotations

import signal

import uvicorn
from fastapi import FastAPI

from orchestrator.settings import Address

_STOP_SECONDS_MAX = 5
_KEEP_ALIVE_SECONDS = 60
"""Far longer than Envoy keeps an idle connection to us (4 s): the side that sends must be the one
that closes, else a request meets a closing connection, and nothing is retried."""


def http_server(app: FastAPI, listen: Address) -> uvicorn.Server:
    """An HTTP/1.1 server in this process. No access log: it would hold paths and queries."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=listen.address,
            port=listen.port,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            server_header=False,
            date_header=False,
            log_config=None,
            timeout_graceful_shutdown=_STOP_SECONDS_MAX,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
    )


def keep_stopping_clean() -> None:
    """Lets `main` end by itself: the server raises the signal that stopped it once more at its end.

    Without this the process would die of that signal with its clean-up undone.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
