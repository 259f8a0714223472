"""One Envoy's ADS stream, state of the world, without I/O: requests in, responses out.

Owns the protocol: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
The rules: a response is answered (accepted or rejected) by the request that repeats its nonce;
a request with an older nonce is stale and changes nothing; a rejection is known by its error
detail only, never resent, and never loses the version that Envoy accepted before.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .resources import CLUSTER, LISTENER, PUSH_ORDER, Resource
from .snapshot import Snapshot

# What is missing from a response of these types Envoy removes, so they are always whole. The
# others it keeps until their cluster or listener goes, so they hold only what was asked for.
_ALWAYS_WHOLE: Final = (CLUSTER, LISTENER)


@dataclass(frozen=True, slots=True)
class Request:
    """A DiscoveryRequest, as far as it matters here. `error` is None unless Envoy rejects."""

    type_url: str
    nonce: str = ""
    names: frozenset[str] = frozenset()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A DiscoveryResponse. `nonce` is unique within the stream."""

    type_url: str
    version: str
    nonce: str
    resources: tuple[Resource, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A version that Envoy refused, and its words."""

    version: str
    message: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """Where one type stands. `nonce` and `sent_version` are of the last response, or empty."""

    names: frozenset[str] = frozenset()
    nonce: str = ""
    sent_version: str = ""
    is_answered: bool = True
    accepted_version: str = ""
    rejection: Rejection | None = None

    def heard(self, request: Request) -> "Subscription":
        """The state after a request with the current nonce."""
        heard = dataclasses.replace(self, names=request.names, is_answered=True)
        if self.is_answered:
            return heard
        if request.error is None:
            return dataclasses.replace(heard, accepted_version=self.sent_version, rejection=None)
        return dataclasses.replace(heard, rejection=Rejection(self.sent_version, request.error))


class AdsStream:
    """The state of one stream. Feed it with `receive` and `publish`; send what they return."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._subscriptions: dict[str, Subscription] = {}
        self._responses = 0

    @property
    def version(self) -> str:
        """The version of the snapshot that this stream hands out."""
        return self._snapshot.version

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """Where each subscribed type stands, by type URL."""
        return MappingProxyType(self._subscriptions)

    def receive(self, request: Request) -> list[Response]:
        """Take a request; at most one response is due. Types we do not serve get none."""
        if request.type_url not in PUSH_ORDER:
            return []
        before = self._subscriptions.get(request.type_url)
        if before is None:
            self._subscriptions[request.type_url] = Subscription(names=request.names)
            return [self._respond(request.type_url)]
        if request.nonce != before.nonce:
            return []
        self._subscriptions[request.type_url] = before.heard(request)
        return [self._respond(request.type_url)] if _wants_more(before, request) else []

    def publish(self, snapshot: Snapshot) -> list[Response]:
        """Take a new snapshot; every subscribed type is due, in the order of `PUSH_ORDER`."""
        if snapshot.version == self._snapshot.version:
            return []
        self._snapshot = snapshot
        return [self._respond(url) for url in PUSH_ORDER if url in self._subscriptions]

    def _respond(self, type_url: str) -> Response:
        self._responses += 1
        nonce = str(self._responses)
        subscription = dataclasses.replace(
            self._subscriptions[type_url],
            nonce=nonce,
            sent_version=self._snapshot.version,
            is_answered=False,
        )
        self._subscriptions[type_url] = subscription
        members = self._snapshot.resources[type_url]
        if type_url not in _ALWAYS_WHOLE:
            members = tuple(m for m in members if m.name in subscription.names)
        return Response(type_url, self._snapshot.version, nonce, members)


def _wants_more(before: Subscription, request: Request) -> bool:
    """Whether a current request asks for something, beyond answering our last response.

    It does when it names something new, and when it comes a second time for one nonce: that is
    Envoy warming a cluster anew, which waits for endpoints even if they have not changed.
    """
    is_asking_again = before.is_answered and request.error is None
    return is_asking_again or not request.names <= before.names
