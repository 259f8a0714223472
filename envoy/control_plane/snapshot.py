"""The snapshot: everything Envoy needs for one topology, as an immutable, versioned value.

Owns the assembly. The rule: pure; the same topology gives the same bytes and the same version.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from . import clusters, listeners, routes
from .resources import CLUSTER, ENDPOINTS, LISTENER, PUSH_ORDER, ROUTES, Json, Resource, encode
from .topology import Topology


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Resources by type URL, sorted by name. `version` is the digest of all of them.

    One version for all types: a change of any pushes all four, so a cluster that Envoy warms
    anew always hears its endpoints again; what has not changed Envoy recognises and keeps.
    """

    version: str
    resources: Mapping[str, tuple[Resource, ...]]


def build_snapshot(topology: Topology) -> Snapshot:
    """The resources for `topology`, unchecked: see `consistency.check`."""
    documents = {
        CLUSTER: _clusters(topology),
        ENDPOINTS: _assignments(topology),
        LISTENER: [
            listeners.edge_listener(topology.edge),
            listeners.inference_listener(topology.inference),
        ],
        ROUTES: [routes.edge_routes(), routes.inference_routes(topology)],
    }
    return make_snapshot({url: tuple(_encode(url, documents[url])) for url in PUSH_ORDER})


def make_snapshot(resources: Mapping[str, tuple[Resource, ...]]) -> Snapshot:
    """Sort the resources and give them their version."""
    ordered = {
        url: tuple(sorted(resources[url], key=lambda resource: resource.name)) for url in PUSH_ORDER
    }
    return Snapshot(_digest(ordered), MappingProxyType(ordered))


def _clusters(topology: Topology) -> list[Json]:
    pools = [clusters.pool_cluster(pool, topology) for pool in topology.pools]
    return [clusters.orchestrator_cluster(), *pools]


def _assignments(topology: Topology) -> list[Json]:
    pools = [clusters.pool_endpoints(pool, topology) for pool in topology.pools]
    return [clusters.worker_endpoints(topology.workers), *pools]


def _encode(type_url: str, documents: list[Json]) -> Iterator[Resource]:
    name_field = "cluster_name" if type_url == ENDPOINTS else "name"
    for document in documents:
        yield encode(type_url, document[name_field], document)


def _digest(resources: Mapping[str, tuple[Resource, ...]]) -> str:
    digest = hashlib.sha256()
    for type_url, members in resources.items():
        for resource in members:
            # Length-prefixed, so that no two contents run together into the same bytes.
            for part in (type_url.encode(), resource.name.encode(), resource.body):
                digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]
