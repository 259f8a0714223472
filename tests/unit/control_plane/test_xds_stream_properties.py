"""The stream under any order of subscriptions, answers, stale answers and new snapshots.

A model Envoy sits at the other end of two queues: it takes responses in order, but late, and
applies or rejects them as the protocol says. Whatever happened, once everything in flight has
arrived and Envoy accepts again, it holds exactly what was published last.
"""

from collections import deque

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from control_plane.resources import CLUSTER, ENDPOINTS, LISTENER, PUSH_ORDER, ROUTES, TYPE_NAMES
from control_plane.snapshot import Snapshot
from control_plane.xds_stream import AdsStream, Request, Response, Subscription
from tests.unit.control_plane.samples import document, snapshot

SNAPSHOTS = [
    snapshot(),
    snapshot(hash_balance_factor=1.25),
    snapshot(pools=[{"name": "fast", "slots": ["slot-1"]}]),
    snapshot(pools=[*document()["pools"], {"name": "control", "slots": ["slot-0"]}]),
]


class ModelEnvoy:
    """What an Envoy holds and asks for; it wants endpoints of its clusters and its two tables."""

    def __init__(self) -> None:
        self.nonces = dict.fromkeys(PUSH_ORDER, "")
        self.held: dict[str, dict[str, bytes]] = {type_url: {} for type_url in PUSH_ORDER}

    def wanted(self, type_url: str) -> frozenset[str]:
        if type_url == ENDPOINTS:
            return frozenset(self.held[CLUSTER])
        return frozenset({"edge", "inference"}) if type_url == ROUTES else frozenset()

    def request(self, type_url: str, error: str | None = None) -> Request:
        return Request(type_url, self.nonces[type_url], self.wanted(type_url), error)

    def take(self, response: Response, error: str | None) -> list[Request]:
        """Apply or reject; a changed set of clusters asks for endpoints, with the nonce held."""
        self.nonces[response.type_url] = response.nonce
        before = self.wanted(ENDPOINTS)
        if error is None:
            self._apply(response)
        answers = [self.request(response.type_url, error)]
        if response.type_url == CLUSTER and self.wanted(ENDPOINTS) != before:
            answers.append(self.request(ENDPOINTS))
        return answers

    def _apply(self, response: Response) -> None:
        received = {resource.name: resource.body for resource in response.resources}
        if response.type_url in (CLUSTER, LISTENER):
            self.held[response.type_url] = received
        else:
            self.held[response.type_url] |= received
        for name in set(self.held[ENDPOINTS]) - self.wanted(ENDPOINTS):
            del self.held[ENDPOINTS][name]


class StreamMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.published = SNAPSHOTS[0]
        self.stream = AdsStream(self.published)
        self.envoy = ModelEnvoy()
        self.to_server: deque[Request] = deque()
        self.to_envoy: deque[Response] = deque()
        self.nonces_seen: set[str] = set()
        for type_url in PUSH_ORDER:
            self.to_server.append(self.envoy.request(type_url))

    @initialize(is_connected=st.booleans())
    def connect(self, is_connected: bool) -> None:
        if is_connected:
            self.settle()

    def send(self, responses: list[Response]) -> None:
        for response in responses:
            assert response.nonce not in self.nonces_seen
            self.nonces_seen.add(response.nonce)
            self.check_content(response)
        self.to_envoy.extend(responses)

    def check_content(self, response: Response) -> None:
        assert response.version == self.published.version
        whole = self.published.resources[response.type_url]
        names = self.stream.subscriptions[response.type_url].names
        if response.type_url in (CLUSTER, LISTENER):
            assert response.resources == whole
        else:
            assert response.resources == tuple(r for r in whole if r.name in names)

    @rule(snapshot=st.sampled_from(SNAPSHOTS))
    def publish(self, snapshot: Snapshot) -> None:
        self.published = snapshot
        responses = self.stream.publish(snapshot)
        order = [PUSH_ORDER.index(response.type_url) for response in responses]
        assert order == sorted(order)
        self.send(responses)

    @rule(count=st.integers(1, 6))
    def server_hears(self, count: int) -> None:
        for _ in range(min(count, len(self.to_server))):
            request = self.to_server.popleft()
            before = self.stream.subscriptions.get(request.type_url)
            responses = self.stream.receive(request)
            self.send(responses)
            if before is not None:
                after = self.stream.subscriptions[request.type_url]
                self.check_answer(before, request, after, len(responses))

    def check_answer(
        self, before: Subscription, request: Request, after: Subscription, responses: int
    ) -> None:
        wants_names = bool(request.names - before.names)
        if request.nonce != before.nonce:
            assert (after, responses) == (before, 0)
        elif request.error is not None:
            assert after.accepted_version == before.accepted_version
            assert responses == wants_names
        elif before.is_answered:
            assert after.accepted_version == before.accepted_version
            assert responses == 1
        else:
            assert after.accepted_version == before.sent_version
            assert responses == wants_names

    @rule(count=st.integers(1, 6), error=st.sampled_from([None, None, "refused"]))
    def envoy_hears(self, count: int, error: str | None) -> None:
        for _ in range(min(count, len(self.to_envoy))):
            self.to_server.extend(self.envoy.take(self.to_envoy.popleft(), error))

    @rule(type_url=st.sampled_from(PUSH_ORDER))
    def envoy_asks_again(self, type_url: str) -> None:
        self.to_server.append(self.envoy.request(type_url))

    @rule(type_url=st.sampled_from(PUSH_ORDER), nonce=st.sampled_from(["", "1", "2", "999"]))
    def a_stale_answer_arrives(self, type_url: str, nonce: str) -> None:
        current = self.stream.subscriptions.get(type_url)
        if current and nonce != current.nonce:
            assert self.stream.receive(Request(type_url, nonce, frozenset({"x"}), "late")) == []
            assert self.stream.subscriptions[type_url] == current

    @invariant()
    def an_accepted_version_was_published(self) -> None:
        known = {"", *(snapshot.version for snapshot in SNAPSHOTS)}
        assert {s.accepted_version for s in self.stream.subscriptions.values()} <= known

    def teardown(self) -> None:
        """Let everything arrive; the last snapshot is republished if Envoy refused it."""
        self.settle()
        other = next(s for s in SNAPSHOTS if s.version != self.published.version)
        last = self.published
        for published in (other, last):
            self.publish(published)
            self.settle()
        for type_url in PUSH_ORDER:
            whole = {r.name: r.body for r in last.resources[type_url]}
            assert self.envoy.held[type_url] == whole, TYPE_NAMES[type_url]
            assert self.stream.subscriptions[type_url].accepted_version == last.version

    def settle(self) -> None:
        for _ in range(100):
            self.envoy_hears(6, None)
            self.server_hears(6)
        assert not self.to_envoy, "a conversation that does not end"
        assert not self.to_server


TestStream = StreamMachine.TestCase
TestStream.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
