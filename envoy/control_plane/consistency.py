"""The check between building a snapshot and publishing it.

Owns the rules that hold across resources, which no schema can express. They are read from the
encoded resources alone, so they hold whoever built the snapshot.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)

from .resources import CLUSTER, ENDPOINTS, LISTENER, PUSH_ORDER, ROUTES, TYPE_NAMES, decode
from .snapshot import Snapshot

_http_connection_manager: Any = http_connection_manager_pb2

View = dict[str, dict[str, Any]]


class InconsistentSnapshotError(ValueError):
    """The snapshot contradicts itself and must not be published; the message lists every fault."""


def check(snapshot: Snapshot) -> None:
    """Raise InconsistentSnapshotError unless every rule holds."""
    faults = list(_duplicate_names(snapshot))
    view = {
        type_url: {resource.name: decode(type_url, resource) for resource in members}
        for type_url, members in snapshot.resources.items()
    }
    for rule in _RULES:
        faults.extend(rule(view))
    if faults:
        raise InconsistentSnapshotError(
            f"snapshot {snapshot.version} must have 0 faults, has {len(faults)}: "
            f"{'; '.join(faults)}; the last good one stays: mend the topology or the builder"
        )


def _duplicate_names(snapshot: Snapshot) -> Iterator[str]:
    for type_url in PUSH_ORDER:
        names = [resource.name for resource in snapshot.resources[type_url]]
        for name in _repeated(names):
            yield f"{TYPE_NAMES[type_url]} resource {name} occurs more than once"


def _eds_clusters_have_their_assignment(view: View) -> Iterator[str]:
    """Without it a cluster warms for ever; with one too many, something was built for nothing."""
    wanted = {
        cluster.eds_cluster_config.service_name or name
        for name, cluster in view[CLUSTER].items()
        if cluster.HasField("eds_cluster_config")
    }
    for name in sorted(wanted - set(view[ENDPOINTS])):
        yield f"cluster {name} has no endpoint assignment"
    for name in sorted(set(view[ENDPOINTS]) - wanted):
        yield f"endpoint assignment {name} belongs to no cluster"


def _routes_name_existing_clusters(view: View) -> Iterator[str]:
    for table_name, table in view[ROUTES].items():
        for host in table.virtual_hosts:
            for route in host.routes:
                if route.HasField("route") and route.route.cluster not in view[CLUSTER]:
                    yield f"routes {table_name} name the missing cluster {route.route.cluster}"


def _listeners_have_their_routes(view: View) -> Iterator[str]:
    used = set()
    for listener_name, listener in view[LISTENER].items():
        for table_name in _route_tables(listener):
            used.add(table_name)
            if table_name not in view[ROUTES]:
                yield f"listener {listener_name} names the missing routes {table_name}"
    for table_name in sorted(set(view[ROUTES]) - used):
        yield f"routes {table_name} belong to no listener"


def _route_tables(listener: Any) -> Iterator[str]:
    manager = _http_connection_manager.HttpConnectionManager()
    for chain in listener.filter_chains:
        for network_filter in chain.filters:
            if network_filter.typed_config.Unpack(manager):
                yield manager.rds.route_config_name


def _listeners_share_no_address(view: View) -> Iterator[str]:
    for place in _repeated(_place(listener.address) for listener in view[LISTENER].values()):
        yield f"two listeners want {place}"


def _endpoints_are_distinct(view: View) -> Iterator[str]:
    """One address twice would be one process with two places on the ring, and the reverse."""
    for name, assignment in view[ENDPOINTS].items():
        members = [m for locality in assignment.endpoints for m in locality.lb_endpoints]
        for place in _repeated(_place(member.endpoint.address) for member in members):
            yield f"assignment {name} lists {place} more than once"
        keys = [_hash_key(member) for member in members]
        for key in _repeated(keys):
            yield f"assignment {name} gives the hash key {key!r} more than once"
        if "" in keys:
            yield f"assignment {name} has an endpoint without a hash key"


_RULES: Final[tuple[Callable[[View], Iterator[str]], ...]] = (
    _eds_clusters_have_their_assignment,
    _routes_name_existing_clusters,
    _listeners_have_their_routes,
    _listeners_share_no_address,
    _endpoints_are_distinct,
)


def _place(address: Any) -> str:
    return f"{address.socket_address.address}:{address.socket_address.port_value}"


def _hash_key(member: Any) -> str:
    fields = member.metadata.filter_metadata["envoy.lb"].fields
    return str(fields["hash_key"].string_value)


def _repeated(values: Iterable[str]) -> list[str]:
    return sorted(value for value, count in Counter(values).items() if count > 1)
