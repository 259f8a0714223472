import pytest

from control_plane.resources import CLUSTER, ENDPOINTS, LISTENER, PUSH_ORDER, ROUTES
from control_plane.xds_stream import AdsStream, Rejection, Request, Response
from tests.unit.control_plane.samples import snapshot

OLD = snapshot()
NEW = snapshot(hash_balance_factor=3.0)
NAMES = {
    CLUSTER: frozenset[str](),
    ENDPOINTS: frozenset({"orchestrator", "pool-fast", "pool-large"}),
    LISTENER: frozenset[str](),
    ROUTES: frozenset({"edge", "inference"}),
}


def subscribe(stream: AdsStream, type_url: str) -> Response:
    [response] = stream.receive(Request(type_url, names=NAMES[type_url]))
    return response


def accept(stream: AdsStream, response: Response) -> list[Response]:
    return stream.receive(Request(response.type_url, response.nonce, NAMES[response.type_url]))


def reject(stream: AdsStream, response: Response, message: str = "no") -> list[Response]:
    names = NAMES[response.type_url]
    return stream.receive(Request(response.type_url, response.nonce, names, message))


def connected() -> AdsStream:
    """A stream on which every type is subscribed and OLD is accepted."""
    stream = AdsStream(OLD)
    for type_url in PUSH_ORDER:
        assert accept(stream, subscribe(stream, type_url)) == []
    return stream


def test_the_first_request_of_a_type_is_answered_with_the_snapshot() -> None:
    response = subscribe(AdsStream(OLD), CLUSTER)
    assert response.version == OLD.version
    assert response.resources == OLD.resources[CLUSTER]


@pytest.mark.parametrize("type_url", [CLUSTER, LISTENER])
def test_clusters_and_listeners_are_whole_whatever_was_asked(type_url: str) -> None:
    [response] = AdsStream(OLD).receive(Request(type_url, names=frozenset({"edge"})))
    assert response.resources == OLD.resources[type_url]


@pytest.mark.parametrize("type_url", [ENDPOINTS, ROUTES])
def test_of_endpoints_and_routes_only_what_was_asked_is_sent(type_url: str) -> None:
    name = OLD.resources[type_url][0].name
    [response] = AdsStream(OLD).receive(Request(type_url, names=frozenset({name, "unknown"})))
    assert [resource.name for resource in response.resources] == [name]


def test_an_accepted_version_is_remembered_and_answered_with_silence() -> None:
    stream = connected()
    assert {s.accepted_version for s in stream.subscriptions.values()} == {OLD.version}


def test_a_new_snapshot_is_pushed_in_the_safe_order() -> None:
    responses = connected().publish(NEW)
    assert [response.type_url for response in responses] == list(PUSH_ORDER)
    assert {response.version for response in responses} == {NEW.version}


def test_the_same_snapshot_is_not_pushed_again() -> None:
    assert connected().publish(snapshot()) == []


def test_nothing_is_pushed_to_who_has_not_asked() -> None:
    stream = AdsStream(OLD)
    subscribe(stream, CLUSTER)
    assert [response.type_url for response in stream.publish(NEW)] == [CLUSTER]


def test_a_stale_nonce_changes_nothing() -> None:
    stream = connected()
    first = stream.publish(NEW)[0]
    second = stream.publish(OLD)[0]
    before = dict(stream.subscriptions)
    assert accept(stream, first) == []
    assert reject(stream, first) == []
    assert dict(stream.subscriptions) == before
    assert accept(stream, second) == []


def test_a_rejection_keeps_the_accepted_version_and_is_not_resent() -> None:
    stream = connected()
    response = stream.publish(NEW)[0]
    assert reject(stream, response, "bad factor") == []
    state = stream.subscriptions[CLUSTER]
    assert state.accepted_version == OLD.version
    assert state.rejection == Rejection(NEW.version, "bad factor")


def test_a_rejection_is_known_by_its_error_even_if_the_text_is_empty() -> None:
    stream = connected()
    assert reject(stream, stream.publish(NEW)[0], "") == []
    assert stream.subscriptions[CLUSTER].rejection == Rejection(NEW.version, "")


def test_the_snapshot_after_a_rejected_one_is_sent_and_clears_it() -> None:
    stream = connected()
    reject(stream, stream.publish(NEW)[0])
    assert accept(stream, stream.publish(OLD)[0]) == []
    assert stream.subscriptions[CLUSTER].rejection is None


def test_asking_for_another_name_is_answered() -> None:
    stream = AdsStream(OLD)
    [response] = stream.receive(Request(ENDPOINTS, names=frozenset({"pool-fast"})))
    more = frozenset({"pool-fast", "orchestrator"})
    [answer] = stream.receive(Request(ENDPOINTS, response.nonce, more))
    assert {resource.name for resource in answer.resources} == more
    assert stream.subscriptions[ENDPOINTS].accepted_version == OLD.version


def test_asking_for_fewer_names_is_answered_with_silence() -> None:
    stream = AdsStream(OLD)
    response = subscribe(stream, ENDPOINTS)
    fewer = frozenset({"pool-fast"})
    assert stream.receive(Request(ENDPOINTS, response.nonce, fewer)) == []
    assert stream.subscriptions[ENDPOINTS].names == fewer


def test_a_cluster_that_warms_anew_gets_its_endpoints_though_nothing_changed() -> None:
    stream = AdsStream(OLD)
    response = subscribe(stream, ENDPOINTS)
    accept(stream, response)
    [fresh] = accept(stream, response)
    assert fresh.resources == response.resources
    assert fresh.nonce != response.nonce
    assert accept(stream, fresh) == []


def test_types_that_are_not_served_are_ignored() -> None:
    secrets = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
    stream = AdsStream(OLD)
    assert stream.receive(Request(secrets, names=frozenset({"key"}))) == []
    assert stream.subscriptions == {}
