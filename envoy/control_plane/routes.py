"""Routes: which cluster answers, and which header decides the place within it.

Owns RDS. The rule: a request reaches a replica only by pool and session, both given; anything
else is refused here, because Envoy would send a request without a hash to a random host.
"""

from typing import Final

from .clusters import ORCHESTRATOR, pool_cluster_name
from .resources import Json
from .topology import Pool, Topology

EDGE_ROUTES: Final = "edge"
INFERENCE_ROUTES: Final = "inference"

_METHODS: Final = r"/inference\.GRPCInferenceService/(ModelStreamInfer|ModelReady|ServerReady)"
_GRPC_INVALID_ARGUMENT: Final = "3"
_GRPC_UNIMPLEMENTED: Final = "12"

# No stream is a minute long: one completion is at most 256 tokens under a deadline of seconds.
STREAM_MS_MAX: Final = 60_000


def edge_routes() -> Json:
    """Everything goes to the orchestrator; the user decides which worker."""
    action = {
        "cluster": ORCHESTRATOR,
        # 0 s switches Envoy's 15 s limit off: the orchestrator answers by the request's deadline,
        # and the listener's idle timeout ends what hangs.
        "timeout": "0s",
        # The first that the request has decides ("terminal"): the verified user, else the
        # credential as sent (stable for one user until the token is renewed), else the address.
        "hash_policy": [
            {"header": {"header_name": "x-warmline-user"}, "terminal": True},
            {"header": {"header_name": "authorization"}, "terminal": True},
            {"connection_properties": {"source_ip": True}, "terminal": True},
        ],
    }
    return _table(EDGE_ROUTES, [{"match": {"prefix": "/"}, "route": action}])


def inference_routes(topology: Topology) -> Json:
    """One route per pool, then the refusals, the most telling first."""
    pools = ", ".join(pool.name for pool in topology.pools)
    refusals = [
        _refusal(
            {"safe_regex": {"regex": _METHODS}, "headers": [_absent("x-warmline-session")]},
            "header x-warmline-session is required (1, got 0): send the session key",
        ),
        _refusal(
            {"safe_regex": {"regex": _METHODS}},
            f"header x-warmline-pool must be one of: {pools}; correct it",
        ),
        _refusal(
            {"prefix": "/"},
            "method is not served here, only ModelStreamInfer, ModelReady and ServerReady of "
            "inference.GRPCInferenceService; call the replica itself for others",
            _GRPC_UNIMPLEMENTED,
        ),
    ]
    return _table(INFERENCE_ROUTES, [_pool_route(pool) for pool in topology.pools] + refusals)


def _pool_route(pool: Pool) -> Json:
    return {
        "match": {
            "safe_regex": {"regex": _METHODS},
            "headers": [
                {"name": "x-warmline-pool", "string_match": {"exact": pool.name}},
                {"name": "x-warmline-session", "present_match": True},
            ],
        },
        "route": {
            "cluster": pool_cluster_name(pool.name),
            "timeout": "0s",
            "max_stream_duration": {"max_stream_duration": f"{STREAM_MS_MAX / 1000:g}s"},
            "hash_policy": [{"header": {"header_name": "x-warmline-session"}, "terminal": True}],
        },
        # The caller alone keeps its deadline and resets the stream; the engine's is a tensor. Were
        # Envoy to keep it too (grpc_timeout_header_max), it would often be first, and once headers
        # have gone down it can only reset: the caller reads INTERNAL, not DEADLINE_EXCEEDED. And
        # a stream that the replica itself were to reset counts against its host.
        # triton_grpc_error crashes Triton 2.51 after some hundreds of errors: no caller may ask.
        "request_headers_to_remove": ["grpc-timeout", "triton_grpc_error"],
        "response_headers_to_add": [
            _set("x-warmline-replica", "%UPSTREAM_METADATA(envoy.lb:hash_key)%")
        ],
    }


def _refusal(match: Json, message: str, grpc_status: str = _GRPC_INVALID_ARGUMENT) -> Json:
    """Answer 400 by Envoy itself; the header turns it into the gRPC status given."""
    return {
        "match": match,
        "direct_response": {"status": 400, "body": {"inline_string": message}},
        "response_headers_to_add": [_set("grpc-status", grpc_status)],
    }


def _absent(name: str) -> Json:
    return {"name": name, "present_match": True, "invert_match": True}


def _set(name: str, value: str) -> Json:
    return {
        "header": {"key": name, "value": value},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }


def _table(name: str, routes: list[Json]) -> Json:
    return {
        "name": name,
        "virtual_hosts": [{"name": name, "domains": ["*"], "routes": routes}],
    }
