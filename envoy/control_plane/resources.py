"""xDS resources as immutable values, and the encoding from Envoy's JSON form.

Builders write Envoy's own documented JSON (`dict`), and `encode` turns it into protobuf bytes.
The rule: encoding is strict (an unknown field is an error here, not in Envoy) and deterministic.
"""

from dataclasses import dataclass
from typing import Any, Final

# These modules register their messages with protobuf's pool, where `ParseDict` finds the
# types that the JSON names by "@type".
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2 as _router
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2 as _http_connection_manager,
)
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import (
    header_mutation_pb2 as _header_mutation,
)
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2 as _http_protocol_options
from google.protobuf import json_format

REGISTERED: Final = (
    _router,
    _http_connection_manager,
    _header_mutation,
    _http_protocol_options,
)

CLUSTER: Final = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINTS: Final = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER: Final = "type.googleapis.com/envoy.config.listener.v3.Listener"
ROUTES: Final = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"

# The order in which a change is pushed, so that nothing names what Envoy has not heard of yet:
# https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations
PUSH_ORDER: Final = (CLUSTER, ENDPOINTS, LISTENER, ROUTES)

# Generated modules carry no types, hence `Any` wherever a message is handled.
_cluster: Any = cluster_pb2
_endpoint: Any = endpoint_pb2
_listener: Any = listener_pb2
_route: Any = route_pb2
_json_format: Any = json_format

_MESSAGES: Final = {
    CLUSTER: _cluster.Cluster,
    ENDPOINTS: _endpoint.ClusterLoadAssignment,
    LISTENER: _listener.Listener,
    ROUTES: _route.RouteConfiguration,
}

TYPE_NAMES: Final = {CLUSTER: "CDS", ENDPOINTS: "EDS", LISTENER: "LDS", ROUTES: "RDS"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource: its xDS name and the serialised protobuf message."""

    name: str
    body: bytes


def encode(type_url: str, name: str, document: Json) -> Resource:
    """Encode Envoy's JSON form; raises `json_format.ParseError` on an unknown field."""
    message = _json_format.ParseDict(document, _MESSAGES[type_url]())
    return Resource(name, message.SerializeToString(deterministic=True))


def decode(type_url: str, resource: Resource) -> Any:
    """The protobuf message of a resource."""
    return _MESSAGES[type_url].FromString(resource.body)
