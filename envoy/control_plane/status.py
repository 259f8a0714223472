"""What the control plane says about itself: GET /healthz, /status (JSON) and /metrics.

On the same listener lies the API of `replica_api`.
"""

import contextlib
import os
import socket
import time
from collections import Counter
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

from . import replica_api
from .fleet import Fleet
from .fleet_view import STATES, describe_pools, is_ramping, state_of
from .resources import PUSH_ORDER, TYPE_NAMES
from .server import DiscoveryService, Node
from .topology import Address


def describe(fleet: Fleet, service: DiscoveryService) -> dict[str, Any]:
    """The published version, the files' last faults, the fleet, and each node's state per type."""
    return {
        "published_version": service.publisher.snapshot.version,
        "topology_error": fleet.source.error,
        "state_error": fleet.state_error,
        "rejections_total": sum(service.rejections_total.values()),
        **replica_api.describe(fleet, time.time()),
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


class _Metrics(Collector):
    """Reads the state when asked, so that nothing has to be kept in step."""

    def __init__(self, fleet: Fleet, service: DiscoveryService) -> None:
        self._fleet = fleet
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
            sum(node.accepted(version) for node in nodes),
        )
        yield CounterMetricFamily(
            f"{prefix}_topology_errors",
            "Topology documents refused",
            self._fleet.source.errors_total,
        )
        yield CounterMetricFamily(
            f"{prefix}_state_errors",
            "States that could not be read or written",
            self._fleet.state_errors_total,
        )
        rejections = CounterMetricFamily(
            f"{prefix}_rejections", "Responses that an Envoy rejected", labels=["type"]
        )
        for type_url in PUSH_ORDER:
            name = TYPE_NAMES[type_url]
            rejections.add_metric([name], service.rejections_total[name])
        yield rejections
        yield from self._fleet_metrics(prefix)

    def _fleet_metrics(self, prefix: str) -> Iterator[Metric]:
        fleet = self._fleet
        slots = GaugeMetricFamily(f"{prefix}_slots", "Slots by state", labels=["state"])
        situation = fleet.situation(time.time())
        counts = Counter(state_of(situation, replica) for replica in fleet.topology.replicas)
        for state in STATES:
            slots.add_metric([state], counts[state])
        weights = GaugeMetricFamily(
            f"{prefix}_slot_weight", "Weight that Envoy is given", labels=["slot"]
        )
        for replica in fleet.effective.replicas:
            weights.add_metric([replica.slot], replica.weight)
        ramping = sum(is_ramping(situation, replica) for replica in fleet.topology.replicas)
        factors = GaugeMetricFamily(
            f"{prefix}_hash_balance_factor", "Bounded-load factor in force", labels=["pool"]
        )
        in_flight = GaugeMetricFamily(
            f"{prefix}_in_flight", "Requests in flight per replica and Envoy", labels=["pool"]
        )
        for pool in describe_pools(situation, fleet.effective, fleet.bounds):
            factors.add_metric([pool["pool"]], pool["hash_balance_factor"])
            if pool["in_flight"] is not None:
                in_flight.add_metric([pool["pool"]], pool["in_flight"])
        drains = CounterMetricFamily(
            f"{prefix}_drains", "Drains asked for, by what became of it", labels=["result"]
        )
        for result, count in fleet.drains_total.items():
            drains.add_metric([result], count)
        yield from (slots, weights, factors, in_flight, drains)
        yield GaugeMetricFamily(f"{prefix}_slots_ramping", "Serving below full weight", ramping)


def make_app(fleet: Fleet, service: DiscoveryService) -> Starlette:
    """The ASGI application."""
    registry = CollectorRegistry()
    registry.register(_Metrics(fleet, service))

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def status(_request: Request) -> Response:
        return JSONResponse(describe(fleet, service))

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/status", status),
            Route("/metrics", metrics),
            *replica_api.routes(fleet),
        ]
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
