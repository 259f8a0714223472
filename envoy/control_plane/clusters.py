"""Clusters and their endpoints: where Envoy sends a request, and how it notices a dead process.

Owns CDS and EDS. The rule: one slot is one place, whatever process fills it, and a request is
never sent twice (no retries anywhere: a repeated generation costs engine time).
"""

from collections.abc import Iterable
from typing import Final

from . import placement
from .resources import Json
from .topology import LoadBound, Pool, Replica, Topology, Worker

ORCHESTRATOR: Final = "orchestrator"

ADS: Final[Json] = {"ads": {}, "resource_api_version": "V3"}

# Above anything one Envoy can carry: admission belongs to the orchestrator, not to a breaker.
_CONCURRENCY_MAX: Final = 65_536

_H2: Final[Json] = {
    # A completion is a few kilobytes; these windows never make a stream wait.
    "initial_stream_window_size": 1024 * 1024,
    "initial_connection_window_size": 16 * 1024 * 1024,
}

_TCP_USER_TIMEOUT: Final[Json] = {
    "description": "TCP_USER_TIMEOUT: give up on a peer that acknowledges nothing for 5 s",
    "level": 6,
    "name": 18,
    "int_value": 5000,
    "state": "STATE_PREBIND",
}


def pool_cluster_name(pool_name: str) -> str:
    """The cluster behind the header `x-warmline-pool: <pool_name>`."""
    return f"pool-{pool_name}"


def orchestrator_cluster() -> Json:
    """Workers over HTTP/1.1, where a reset of the request closes the connection to the worker.

    (One server in use ignored HTTP/2 stream resets; a closed connection cannot be overlooked.)
    """
    return _cluster(ORCHESTRATOR) | {
        "typed_extension_protocol_options": _http_options(
            {"http_protocol_options": {}},
            # Shorter than any server's keep-alive (uvicorn: 5 s), so that Envoy never writes a
            # request into a connection which the worker is closing: it would not be retried.
            {"idle_timeout": "4s"},
        ),
        "load_balancing_policy": placement.unbounded(),
    }


def pool_cluster(pool: Pool, topology: Topology) -> Json:
    """Replicas over HTTP/2 (gRPC); the session decides which, within the bound of its load."""
    return _cluster(pool_cluster_name(pool.name)) | {
        "typed_extension_protocol_options": _http_options({"http2_protocol_options": _H2}, {}),
        "load_balancing_policy": placement.bounded(topology.placement, _factor(pool, topology)),
    }


def _factor(pool: Pool, topology: Topology) -> float:
    """The pool's factor, which an effective topology has; else what holds before any load."""
    if pool.hash_balance_factor is not None:
        return pool.hash_balance_factor
    bound = topology.hash_balance_factor
    return bound.quiet if isinstance(bound, LoadBound) else bound


def worker_endpoints(workers: Iterable[Worker]) -> Json:
    """The assignment of the cluster `orchestrator`; a worker's name is its place."""
    return {
        "cluster_name": ORCHESTRATOR,
        "endpoints": [
            {"lb_endpoints": [_endpoint(w.name, w.address, w.port, w.port) for w in workers]}
        ],
    }


def pool_endpoints(pool: Pool, topology: Topology) -> Json:
    """The assignment of one pool: its slots, in the order of `replicas`."""
    members = [replica for replica in topology.replicas if replica.slot in pool.slots]
    return {
        "cluster_name": pool_cluster_name(pool.name),
        "endpoints": [{"lb_endpoints": [_replica_endpoint(replica) for replica in members]}],
    }


def _replica_endpoint(replica: Replica) -> Json:
    return _endpoint(replica.slot, replica.address, replica.port, replica.status_port) | {
        # DRAINING, never UNHEALTHY: the latter also spills to other priorities.
        "health_status": "DRAINING" if replica.state == "draining" else "HEALTHY",
        "load_balancing_weight": replica.weight,
    }


def _endpoint(place: str, address: str, port: int, status_port: int) -> Json:
    return {
        "endpoint": {
            "address": {"socket_address": {"address": address, "port_value": port}},
            "health_check_config": {"port_value": status_port},
        },
        "metadata": {"filter_metadata": {"envoy.lb": {"hash_key": place}}},
    }


def _cluster(name: str) -> Json:
    return {
        "name": name,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": ADS},
        "connect_timeout": "0.5s",
        "health_checks": [_health_check()],
        "outlier_detection": _outlier_detection(),
        "circuit_breakers": {"thresholds": [_thresholds()]},
        "common_lb_config": {
            # Never send to hosts known dead, however many are.
            "healthy_panic_threshold": {"value": 0},
            # A change of health or weight counts at once; by default Envoy gathers those of a
            # second, and goes on sending to a replica that it already knows to be dead.
            "update_merge_window": "0s",
        },
        # A host taken out of the topology goes at once; its live streams still finish.
        "ignore_health_on_host_removal": True,
        # Dead peers are noticed by TCP, not by HTTP/2 pings: gRPC servers answer pings more
        # frequent than theirs with GOAWAY "too_many_pings" and close, which kills live streams.
        "upstream_connection_options": {
            "tcp_keepalive": {
                "keepalive_time": 5,
                "keepalive_interval": 1,
                "keepalive_probes": 3,
            }
        },
        "upstream_bind_config": {"socket_options": [_TCP_USER_TIMEOUT]},
    }


def _health_check() -> Json:
    """Readiness by the process itself. An answer other than 200 counts at once, silence twice."""
    return {
        "timeout": "1s",
        "interval": "0.5s",
        "no_traffic_interval": "0.5s",
        "unhealthy_interval": "0.25s",
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
        "http_health_check": {"path": "/healthz"},
    }


def _outlier_detection() -> Json:
    """The first failed connect or reset takes a host out; its next good health check returns it.

    Answers never count: an error of one request says nothing about the next.
    """
    return {
        "interval": "0.5s",
        "base_ejection_time": "1s",
        "max_ejection_time": "5s",
        "max_ejection_percent": 100,
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 1,
        "enforcing_consecutive_local_origin_failure": 100,
        "enforcing_consecutive_5xx": 0,
        "enforcing_consecutive_gateway_failure": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
    }


def _thresholds() -> Json:
    return {
        "max_connections": _CONCURRENCY_MAX,
        "max_pending_requests": _CONCURRENCY_MAX,
        "max_requests": _CONCURRENCY_MAX,
        "max_retries": 0,
    }


def _http_options(explicit: Json, common: Json) -> Json:
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return {
        options: {
            "@type": f"type.googleapis.com/{options}",
            "explicit_http_config": explicit,
            "common_http_protocol_options": common,
        }
    }
