"""The pump between gRPC and `xds_stream`: it carries messages and decides nothing."""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2

from .resources import PUSH_ORDER, TYPE_NAMES
from .snapshot import Snapshot
from .topology import Address
from .xds_stream import AdsStream, Request, Response

# Generated modules and gRPC carry no types.
_discovery: Any = discovery_pb2
_any: Any = any_pb2
_grpc: Any = grpc

log = logging.getLogger(__name__)

_SERVICE: Final = "envoy.service.discovery.v3.AggregatedDiscoveryService"

_SERVER_OPTIONS: Final = (
    # A second control plane on the same port fails instead of serving half of the Envoys.
    ("grpc.so_reuseport", 0),
    # Notice within half a minute that an Envoy's machine is gone.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_concurrent_streams", 4096),
)


class Publisher:
    """The snapshot in force; streams wait here for the next one."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._changed = asyncio.Event()

    def publish(self, snapshot: Snapshot) -> None:
        """Put `snapshot` in force and wake every stream."""
        self.snapshot = snapshot
        self._changed.set()
        self._changed = asyncio.Event()

    async def newer_than(self, version: str) -> Snapshot:
        """The snapshot in force as soon as its version is another one than `version`."""
        while self.snapshot.version == version:
            await self._changed.wait()
        return self.snapshot


@dataclass(slots=True)
class Node:
    """A connected Envoy: the id from its bootstrap (empty before its first request)."""

    stream: AdsStream
    id: str = ""

    def accepted(self, version: str) -> bool:
        """Whether it serves by `version` in all four types."""
        states = self.stream.subscriptions
        return all(url in states and states[url].accepted_version == version for url in PUSH_ORDER)


class DiscoveryService:
    """ADS for any number of Envoys."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.nodes: dict[int, Node] = {}
        self.rejections_total: Counter[str] = Counter()
        self._stream_ids = itertools.count()

    def is_accepted(self) -> bool:
        """Whether Envoys are connected and all of them serve by the snapshot in force."""
        version = self.publisher.snapshot.version
        return bool(self.nodes) and all(node.accepted(version) for node in self.nodes.values())

    async def stream(self, requests: AsyncIterator[Any], _context: object) -> AsyncIterator[Any]:
        """Run one Envoy's stream until either side ends it."""
        node = Node(AdsStream(self.publisher.snapshot))
        stream_id = next(self._stream_ids)
        self.nodes[stream_id] = node
        try:
            async for response in self._converse(node, requests):
                yield _to_message(response)
        finally:
            del self.nodes[stream_id]
            log.info("node %s disconnected", node.id)

    async def _converse(self, node: Node, requests: AsyncIterator[Any]) -> AsyncIterator[Response]:
        incoming = asyncio.ensure_future(anext(requests, None))
        change = asyncio.ensure_future(self.publisher.newer_than(node.stream.version))
        try:
            while True:
                await asyncio.wait((incoming, change), return_when=asyncio.FIRST_COMPLETED)
                responses: list[Response] = []
                if change.done():
                    responses += node.stream.publish(change.result())
                    change = asyncio.ensure_future(self.publisher.newer_than(node.stream.version))
                if incoming.done():
                    message = incoming.result()
                    if message is None:
                        return
                    responses += node.stream.receive(self._read(node, message))
                    incoming = asyncio.ensure_future(anext(requests, None))
                for response in responses:
                    yield response
        finally:
            incoming.cancel()
            change.cancel()

    def _read(self, node: Node, message: Any) -> Request:
        if message.node.id and not node.id:
            node.id = message.node.id
            log.info("node %s connected", node.id)
        request = _from_message(message)
        if request.error is not None:
            type_name = TYPE_NAMES.get(request.type_url, "other")
            self.rejections_total[type_name] += 1
            log.error("node %s rejected %s: %s", node.id, type_name, request.error)
        return request


async def start(service: DiscoveryService, address: Address) -> Any:
    """Serve ADS on `address`; raises OSError where it cannot be bound."""
    server = _grpc.aio.server(options=_SERVER_OPTIONS)
    stream = _grpc.stream_stream_rpc_method_handler(
        service.stream,
        request_deserializer=_discovery.DiscoveryRequest.FromString,
        response_serializer=_discovery.DiscoveryResponse.SerializeToString,
    )
    methods = {"StreamAggregatedResources": stream}
    server.add_generic_rpc_handlers([_grpc.method_handlers_generic_handler(_SERVICE, methods)])
    try:
        server.add_insecure_port(str(address))
    except RuntimeError as error:
        raise OSError(
            f"control_plane must be a free address, got {address}, which cannot be bound; "
            "stop what listens there or choose another port"
        ) from error
    await server.start()
    return server


def _from_message(message: Any) -> Request:
    error = message.error_detail.message if message.HasField("error_detail") else None
    names = frozenset(message.resource_names)
    return Request(message.type_url, message.response_nonce, names, error)


def _to_message(response: Response) -> Any:
    return _discovery.DiscoveryResponse(
        type_url=response.type_url,
        version_info=response.version,
        nonce=response.nonce,
        resources=[
            _any.Any(type_url=response.type_url, value=resource.body)
            for resource in response.resources
        ],
    )
