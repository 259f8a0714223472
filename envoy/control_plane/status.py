"""What the control plane says about itself: GET /healthz, /status (JSON) and /metrics."""

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .resources import PUSH_ORDER, TYPE_NAMES
from .server import DiscoveryService, Node
from .topology import Address
from .topology_source import TopologyFile


def describe(source: TopologyFile, service: DiscoveryService) -> dict[str, Any]:
    """The published version, the topology's last fault, and each node's state per type."""
    return {
        "published_version": service.publisher.snapshot.version,
        "topology_error": source.error,
        "rejections_total": sum(service.rejections_total.values()),
        "nodes": [_describe_node(node) for node in service.nodes.values()],
    }


def _describe_node(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "types": {
            TYPE_NAMES[url]: {
                "accepted_version": state.accepted_version,
                "rejected_version": state.rejection.version if state.rejection else "",
                "rejection": state.rejection.message if state.rejection else "",
            }
            for url, state in node.stream.subscriptions.items()
        },
    }


def _accepted(node: Node, version: str) -> bool:
    states = node.stream.subscriptions
    return all(url in states and states[url].accepted_version == version for url in PUSH_ORDER)


class _Metrics(Collector):
    """Reads the state when asked, so that nothing has to be kept in step."""

    def __init__(self, source: TopologyFile, service: DiscoveryService) -> None:
        self._source = source
        self._service = service

    def collect(self) -> Iterator[Metric]:
        service, version = self._service, self._service.publisher.snapshot.version
        nodes = list(service.nodes.values())
        prefix = "warmline_control_plane"
        yield InfoMetricFamily(f"{prefix}_snapshot", "In force", {"version": version})
        yield GaugeMetricFamily(f"{prefix}_nodes", "Connected Envoys", len(nodes))
        yield GaugeMetricFamily(
            f"{prefix}_nodes_accepted",
            "Connected Envoys that accepted the snapshot in force, in all four types",
            sum(_accepted(node, version) for node in nodes),
        )
        yield CounterMetricFamily(
            f"{prefix}_topology_errors", "Topology documents refused", self._source.errors_total
        )
        rejections = CounterMetricFamily(
            f"{prefix}_rejections", "Responses that an Envoy rejected", labels=["type"]
        )
        for type_url in PUSH_ORDER:
            name = TYPE_NAMES[type_url]
            rejections.add_metric([name], service.rejections_total[name])
        yield rejections


def make_app(source: TopologyFile, service: DiscoveryService) -> Starlette:
    """The ASGI application."""
    registry = CollectorRegistry()
    registry.register(_Metrics(source, service))

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def status(_request: Request) -> Response:
        return JSONResponse(describe(source, service))

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[Route("/healthz", healthz), Route("/status", status), Route("/metrics", metrics)]
    )


class StatusServer(uvicorn.Server):
    """uvicorn beside a gRPC server: signals belong to `main`, which ends both.

    Run it with `await server.serve()`, end it by `should_exit = True`.
    """

    def __init__(self, app: Starlette, listening: socket.socket) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        self._listening = listening

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on the bound socket until told to exit."""
        await super().serve(sockets=sockets or [self._listening])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers alone."""
        yield


def bind(address: Address) -> socket.socket:
    """A listening socket; raises OSError where the address is taken (uvicorn would exit)."""
    family = socket.AF_INET6 if ":" in address.address else socket.AF_INET
    try:
        return socket.create_server((address.address, address.port), family=family)
    except OSError as error:
        raise OSError(
            f"control_plane_status must be a free address, got {address}: "
            f"{os.strerror(error.errno or 0)}; stop what listens there or choose another port"
        ) from error
