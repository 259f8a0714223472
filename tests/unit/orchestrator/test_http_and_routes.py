"""The routes over in-memory ASGI: statuses, headers, framing, and a client that leaves."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from orchestrator.app import NativeCompletions, build_app
from orchestrator.clock import ManualClock
from orchestrator.generation.fake import FakeInferenceClient, answer_with
from orchestrator.http import BODY_BYTES_MAX, ClientLeftError, read_body, until_client_leaves
from orchestrator.outcome import Outcome
from orchestrator.record.metrics import RequestMetrics
from orchestrator.record.sinks import MemorySink
from orchestrator.wire.malformed import BodyTooLargeError
from tests.support.orchestrator import pipeline, tokenizer

PATH = "/v1/inline-completions"
BODY = {"document": {"prefix": "x = ", "suffix": "\n", "version": 17}}


def app(client: FakeInferenceClient, sink: MemorySink, missing: list[str]) -> FastAPI:
    async def find_missing() -> list[str]:
        return missing

    clock = ManualClock()
    served = pipeline(client, sink, clock)
    metrics = RequestMetrics(CollectorRegistry())
    return build_app(NativeCompletions(served, metrics, clock, "development"), find_missing)


def http(missing: list[str] | None = None, text: str = "a + b") -> httpx.AsyncClient:
    client = FakeInferenceClient(answer_with(list(tokenizer().encode(text))))
    transport = httpx.ASGITransport(app(client, MemorySink(), missing or []))
    return httpx.AsyncClient(transport=transport, base_url="http://orchestrator")


async def test_an_answer_is_compact_and_says_everything_the_contract_promises() -> None:
    answer = await http().post(PATH, json=BODY)
    body = answer.json()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert list(body) == [
        "id", "suggestion", "outcome", "reason", "mode", "document_version", "matches", "model",
        "recipe", "arm", "policy_version", "usage", "timings_ms",
    ]  # fmt: skip
    assert body["suggestion"] == "a + b"
    assert body["document_version"] == 17
    assert set(body["usage"]) == {"prompt_tokens", "cached_tokens", "completion_tokens"}
    assert set(body["timings_ms"]) == {
        "total", "admission", "prompt", "queue", "prefill", "decode", "postprocess"
    }  # fmt: skip
    assert b'"suggestion":"a + b"' in answer.content


async def test_every_answer_carries_the_three_headers() -> None:
    request_id = "6f1b0d7e-6d0f-4f0a-9a3f-0d3c6b2c1a11"
    answer = await http().post(PATH, json=BODY | {"request_id": request_id})
    assert answer.headers["x-request-id"] == request_id
    assert answer.headers["x-policy-version"] == "1"
    assert answer.headers["x-debounce-hint-ms"] == "75"


async def test_a_stream_is_the_same_answer_in_events_without_pings() -> None:
    answer = await http().post(PATH, json=BODY | {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, rest = answer.text.split("\n\n")
    assert rest == ""
    assert all(event.startswith("data: ") for event in events)
    text, last = (json.loads(event.removeprefix("data: ")) for event in events)
    assert text == {"text": "a + b"}
    plain = (await http().post(PATH, json=BODY)).json()
    assert last.keys() == plain.keys() - {"suggestion"}


async def test_a_stream_without_a_suggestion_is_its_last_event_alone() -> None:
    answer = await http(text="").post(PATH, json=BODY | {"stream": True})
    (event, rest) = answer.text.split("\n\n")
    assert json.loads(event.removeprefix("data: "))["outcome"] == "empty"
    assert rest == ""


@pytest.mark.parametrize(
    ("content", "headers", "status", "says"),
    [
        (b"{", {}, 400, "JSON"),
        (b'{"document":{"prefix":1}}', {}, 400, "document.prefix"),
        (b" " * (BODY_BYTES_MAX + 1), {}, 413, str(BODY_BYTES_MAX)),
        (json.dumps(BODY).encode(), {"x-warmline-user": "ada"}, 401, "x-warmline-tenant"),
    ],
)
async def test_what_is_refused_is_refused_with_words(
    content: bytes, headers: dict[str, str], status: int, says: str
) -> None:
    answer = await http().post(PATH, content=content, headers=headers)
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]


async def test_another_method_or_path_does_not_exist() -> None:
    assert (await http().get(PATH)).status_code == 405
    assert (await http().get("/docs")).status_code == 404


async def test_liveness_is_not_readiness() -> None:
    waiting = http(missing=["pool fast: engine manifest absent"])
    assert (await waiting.get("/healthz")).status_code == 200
    answer = await waiting.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "missing": ["pool fast: engine manifest absent"]}
    assert (await http().get("/readyz")).json() == {"ready": True, "missing": []}


class Peer:
    """The client's side of ASGI: sends messages, then hangs up when it is told to."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = list(messages)
        self.hung_up = asyncio.Event()
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop(0)
        await self.hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_client_that_leaves_cancels_its_sequence_and_is_sent_nothing() -> None:
    client, sink = FakeInferenceClient(answer_with([300], delay_ms=600_000)), MemorySink()
    peer = Peer(part(json.dumps(BODY).encode()))
    scope = {
        "type": "http", "method": "POST", "path": PATH, "raw_path": PATH.encode(),
        "query_string": b"", "headers": [], "root_path": "",
    }  # fmt: skip
    served = asyncio.create_task(app(client, sink, [])(scope, peer.receive, peer.send))
    await client.entered.wait()
    peer.hung_up.set()
    await served
    assert (client.live, client.cancelled) == (0, 1)
    assert [record.outcome for record in sink.records] == [Outcome.CANCELLED]
    assert peer.sent == []


async def test_a_body_in_parts_is_joined() -> None:
    peer = Peer(part(b"ab", more=True), part(b"", more=True), part(b"c"))
    assert await read_body({}, peer.receive) == b"abc"


async def test_a_body_that_grows_over_the_limit_is_refused_before_it_ends() -> None:
    peer = Peer(*(part(b"x" * BODY_BYTES_MAX, more=True) for _ in range(3)))
    with pytest.raises(BodyTooLargeError):
        await read_body({}, peer.receive)
    assert await peer.receive() == part(b"x" * BODY_BYTES_MAX, more=True)


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_noticed() -> None:
    peer = Peer(part(b"x", more=True))
    peer.hung_up.set()
    with pytest.raises(ClientLeftError):
        await read_body({}, peer.receive)


async def test_a_cancel_from_outside_stays_a_cancel() -> None:
    peer, started = Peer(), asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    served = asyncio.create_task(until_client_leaves(peer.receive, work()))
    await started.wait()
    served.cancel()
    with pytest.raises(asyncio.CancelledError):
        await served


async def test_the_watch_for_the_client_ends_with_the_work() -> None:
    peer = Peer()

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    before = asyncio.all_tasks()
    assert await until_client_leaves(peer.receive, work()) == 7
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
