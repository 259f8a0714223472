"""Listeners: how requests come in, what is stripped and stamped, and Envoy's own answers.

Owns LDS. The rules: nothing a caller sends can pass for an identity, nothing is buffered, and
nothing of a request is written anywhere (no access log, no tracing).
"""

from typing import Final

from .clusters import ADS
from .empty_success import mapper
from .resources import Json
from .routes import EDGE_ROUTES, INFERENCE_ROUTES
from .topology import Address

# Flow control bound per connection and direction; also what one slow reader can hold in memory.
_CONNECTION_BUFFER_BYTES: Final = 256 * 1024

_HCM: Final = (
    "type.googleapis.com/envoy.extensions.filters.network"
    ".http_connection_manager.v3.HttpConnectionManager"
)


def edge_listener(address: Address) -> Json:
    """HTTP/1.1 and HTTP/2 without TLS, by what the first bytes say, for editors."""
    manager = _manager(EDGE_ROUTES) | {
        "codec_type": "AUTO",
        "early_header_mutation_extensions": [_strip_and_stamp()],
        # The peer's address is the client's, whatever `x-forwarded-for` claims, and the request
        # id is always ours (so it is safe to print into the answer below).
        "use_remote_address": True,
        "generate_request_id": True,
        "always_set_request_id_in_response": True,
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "local_reply_config": {"mappers": [mapper()]},
        "request_headers_timeout": "10s",
        # From the first byte to the last of a request; a body is at most 1 MiB.
        "request_timeout": "30s",
        "stream_idle_timeout": "60s",
        "common_http_protocol_options": {
            "idle_timeout": "600s",
            # An underscore in a header name can read as a dash further on, and so as an identity.
            "headers_with_underscores_action": "DROP_HEADER",
        },
        "http2_protocol_options": {
            "max_concurrent_streams": 128,
            "initial_stream_window_size": 1024 * 1024,
            "initial_connection_window_size": 4 * 1024 * 1024,
            # An editor on a sleeping laptop must not hold a stream for ever.
            "connection_keepalive": {"interval": "30s", "timeout": "10s"},
        },
    }
    return _listener("edge", address, manager) | {
        # So that a stop can drain the edge alone (`/drain_listeners?inboundonly`) while what it
        # has let in is still served behind it.
        "traffic_direction": "INBOUND",
    }


def inference_listener(address: Address) -> Json:
    """gRPC for the orchestrator's workers, which keep one connection each for all streams."""
    manager = _manager(INFERENCE_ROUTES) | {
        "codec_type": "HTTP2",
        "generate_request_id": False,
        "stream_idle_timeout": "60s",
        "http2_protocol_options": {
            "max_concurrent_streams": 4096,
            "initial_stream_window_size": 1024 * 1024,
            "initial_connection_window_size": 16 * 1024 * 1024,
        },
    }
    return _listener("inference", address, manager)


def _listener(name: str, address: Address, manager: Json) -> Json:
    network_filter = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": manager,
    }
    return {
        "name": name,
        "address": {"socket_address": {"address": address.address, "port_value": address.port}},
        "per_connection_buffer_limit_bytes": _CONNECTION_BUFFER_BYTES,
        # One socket for all threads: a second Envoy on the same port fails instead of silently
        # taking half of the connections, and the few long-lived ones spread evenly.
        "enable_reuse_port": False,
        "connection_balance_config": {"exact_balance": {}},
        "filter_chains": [{"filters": [network_filter]}],
    }


def _manager(route_config_name: str) -> Json:
    return {
        "@type": _HCM,
        "stat_prefix": route_config_name,
        "rds": {"config_source": ADS, "route_config_name": route_config_name},
        "http_filters": [_router()],
    }


def _router() -> Json:
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    return {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": router, "suppress_envoy_headers": True},
    }


def _strip_and_stamp() -> Json:
    """Before anything looks at the request: no header of ours comes from outside.

    The time is the start of the stream in milliseconds since 1970; the deadline counts from it.
    """
    mutation = (
        "type.googleapis.com/envoy.extensions.http"
        ".early_header_mutation.header_mutation.v3.HeaderMutation"
    )
    stamp = {
        "header": {"key": "x-warmline-received-ms", "value": "%START_TIME(%s%3f)%"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    strip = {"remove_on_match": {"key_matcher": {"prefix": "x-warmline-"}}}
    return {
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": {"@type": mutation, "mutations": [strip, {"append": stamp}]},
    }
