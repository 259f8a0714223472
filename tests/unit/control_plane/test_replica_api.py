from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane.fleet import Fleet
from control_plane.replica_api import BODY_BYTES_MAX
from control_plane.server import DiscoveryService
from control_plane.state_file import StateFile
from control_plane.status import make_app
from control_plane.topology_source import TopologyFile
from tests.unit.control_plane.samples import document, encode
from tests.unit.control_plane.situations import seen

DRAIN = "/v1/replicas/slot-0/drain"
UNDRAIN = "/v1/replicas/slot-0/undrain"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Two slots in one pool, 40 of the 160 warm sessions on the first."""
    changed = document()
    changed["pools"] = [{"name": "fast", "slots": ["slot-0", "slot-1"]}]
    path = tmp_path / "topology.yaml"
    path.write_bytes(encode(changed))
    fleet = Fleet(TopologyFile(path), StateFile(tmp_path / "state.json"), now_s=0.0)
    observations = {"slot-0": seen(live=2, waiting=1, warm=40), "slot-1": seen(warm=120)}
    fleet.observed(observations, envoys=1, now_s=0.0)
    return fleet


async def ask(
    fleet: Fleet,
    method: str,
    path: str,
    *,
    client: str = "127.0.0.1",
    headers: Mapping[str, str] | None = None,
    **body: Any,
) -> httpx.Response:
    app = make_app(fleet, DiscoveryService(fleet.publisher))
    transport = httpx.ASGITransport(app, client=(client, 50_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://status") as http:
        return await http.request(method, path, headers=headers, **body)


async def test_the_list_shows_state_weight_load_and_warm_sessions(fleet: Fleet) -> None:
    answer = (await ask(fleet, "GET", "/v1/replicas")).json()
    first = answer["slots"][0]
    assert {key: first[key] for key in ("slot", "state", "weight", "pools", "ready")} == {
        "slot": "slot-0",
        "state": "serving",
        "weight": 100,
        "pools": ["fast"],
        "ready": True,
    }
    loads = [first[k] for k in ("live_sequences", "waiting_sequences", "warm_sessions")]
    assert loads == [2, 1, 40]
    assert (first["drain"], first["ramp"]) == (None, None)
    assert answer["pools"][0]["serving"] == ["slot-0", "slot-1"]


async def test_a_drain_without_a_body_takes_the_defaults(fleet: Fleet) -> None:
    answer = await ask(fleet, "POST", DRAIN)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["state"], body["drain"]["forced"]) == ("draining", False)
    assert 59 < body["drain"]["seconds_left"] <= 60


async def test_deadline_and_force_are_taken_from_the_body(fleet: Fleet) -> None:
    answer = await ask(fleet, "POST", DRAIN, json={"force": True, "deadline_s": 7})
    assert answer.json()["drain"]["forced"] is True
    assert 6 < answer.json()["drain"]["seconds_left"] <= 7


async def test_drain_and_undrain_may_be_repeated(fleet: Fleet) -> None:
    for path, state in ((DRAIN, "draining"), (DRAIN, "draining"), (UNDRAIN, "serving")):
        answer = await ask(fleet, "POST", path)
        assert (answer.status_code, answer.json()["state"]) == (200, state)
    again = await ask(fleet, "POST", UNDRAIN)
    assert again.json()["ramp"] == {"percent": 10, "begun": False, "seconds_left": 300.0}
    assert again.json()["weight"] == 10


async def test_a_refusal_is_a_conflict_with_its_reason(fleet: Fleet) -> None:
    answer = await ask(fleet, "POST", "/v1/replicas/slot-1/drain")
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert error["reason"] == "warm_sessions"
    assert "would move 120" in error["message"]


async def test_an_unknown_slot_is_not_found(fleet: Fleet) -> None:
    answer = await ask(fleet, "POST", "/v1/replicas/slot-9/drain")
    assert (answer.status_code, answer.json()["error"]["reason"]) == (404, "unknown_slot")


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{", b'{"surprise": 1}', b'{"deadline_s": -1}', b'{"deadline_s": 90000}'],
)
async def test_a_body_that_says_something_else_is_refused(fleet: Fleet, body: bytes) -> None:
    answer = await ask(fleet, "POST", DRAIN, content=body)
    assert (answer.status_code, answer.json()["error"]["reason"]) == (400, "body")


async def test_a_long_body_is_refused_unread(fleet: Fleet) -> None:
    answer = await ask(fleet, "POST", DRAIN, content=b" " * (BODY_BYTES_MAX + 1))
    assert answer.status_code == 413


@pytest.mark.parametrize("client", ["8.8.8.8", "2001:4860:4860::8888", "::", "somebody"])
@pytest.mark.parametrize("path", [DRAIN, UNDRAIN])
async def test_callers_from_outside_may_change_nothing(
    fleet: Fleet, client: str, path: str
) -> None:
    before = fleet.state
    assert (await ask(fleet, "POST", path, client=client)).status_code == 403
    assert fleet.state == before


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "10.1.2.3", "192.168.1.9", "fd00::1"])
async def test_callers_from_inside_may(fleet: Fleet, client: str) -> None:
    assert (await ask(fleet, "POST", DRAIN, client=client)).status_code == 200


async def test_a_web_page_may_change_nothing(fleet: Fleet) -> None:
    headers = {"origin": "http://127.0.0.1:8087"}
    assert (await ask(fleet, "POST", DRAIN, headers=headers)).status_code == 403


async def test_a_state_that_cannot_be_saved_is_an_error_with_the_next_step(
    fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "state.json.new").mkdir()  # in the way of the write
    answer = await ask(fleet, "POST", DRAIN)
    assert answer.status_code == 503
    assert "--state" in answer.json()["error"]["message"]


async def test_a_read_changes_nothing_and_a_get_of_a_change_is_refused(fleet: Fleet) -> None:
    assert (await ask(fleet, "GET", DRAIN)).status_code == 405
