"""The status listener: GET /healthz, /load and /metrics on the loopback interface.

Rule: it answers while the engine loads, computes, is broken or is stuck, so it only reads what
other threads publish. The answers hold counts, times and the engine's digest, nothing else.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from replica.load_report import LoadReport


@dataclass(frozen=True, slots=True)
class Status:
    """What the listener shows.

    Attributes:
        trouble: why the replica cannot serve, or None.
        stuck: whether the step in flight is over its limit.
        engine_digest: of the served engine.
        load: the load report.
    """

    trouble: str | None
    stuck: bool
    engine_digest: str
    load: LoadReport


def health_body(status: Status) -> tuple[int, str, bytes]:
    """(status code, content type, body) of /healthz."""
    if status.trouble is None:
        return 200, "text/plain", b"ok\n"
    return 503, "text/plain", (status.trouble + "\n").encode()


def load_body(status: Status) -> tuple[int, str, bytes]:
    """(status code, content type, body) of /load."""
    document: dict[str, Any] = asdict(status.load)
    document["engine_digest"] = status.engine_digest
    document["stuck"] = status.stuck
    return 200, "application/json", json.dumps(document, separators=(",", ":")).encode()


def metrics_body(status: Status) -> tuple[int, str, bytes]:
    """(status code, content type, body) of /metrics, in Prometheus' text format 0.0.4."""
    lines = []
    for name, value in {**asdict(status.load), "stuck": int(status.stuck)}.items():
        is_counter = name.endswith("_total") and name != "cache_blocks_total"
        kind = "counter" if is_counter else "gauge"
        lines.append(f"# TYPE warmline_replica_{name} {kind}")
        lines.append(f"warmline_replica_{name} {value}")
    lines.append("# TYPE warmline_replica_engine_info gauge")
    lines.append(f'warmline_replica_engine_info{{engine_digest="{status.engine_digest}"}} 1')
    return 200, "text/plain; version=0.0.4", ("\n".join(lines) + "\n").encode()


ROUTES: dict[str, Callable[[Status], tuple[int, str, bytes]]] = {
    "/healthz": health_body,
    "/load": load_body,
    "/metrics": metrics_body,
}


class StatusServer:
    """Serves `read_status()` on 127.0.0.1:`port` from a daemon thread; port 0 takes a free one."""

    def __init__(self, port: int, read_status: Callable[[], Status]) -> None:
        handler = type("StatusHandler", (_Handler,), {"read_status": staticmethod(read_status)})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="status", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Start answering."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and close the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    read_status: Callable[[], Status]
    protocol_version = "HTTP/1.1"
    # One packet an answer: with head and body in two, the second waits for the first's late
    # acknowledgement (Nagle's algorithm against delayed acknowledgements, 40 ms and more).
    wbufsize = 16 * 1024
    # A client that opens a connection and says nothing must not hold a thread for ever.
    timeout = 10

    def do_GET(self) -> None:
        route = ROUTES.get(self.path)
        if route is None:
            self._answer(404, "text/plain", b"no such page\n")
        else:
            self._answer(*route(self.read_status()))

    def _answer(self, code: int, content_type: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Nothing: health checks would fill the log."""
