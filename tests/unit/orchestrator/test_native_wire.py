import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.request import Client, Mode, Principal, RequestedMode, Role, Tier, Trigger
from orchestrator.wire.malformed import MalformedRequestError, without_lone_surrogates
from orchestrator.wire.native import Envelope, parse

ENVELOPE = Envelope("c-1", Principal("t", "u", Tier.FREE, Role.USER), Client(), 0.0, 0.0)
WHOLE = {
    "request_id": "6f1b0d7e-6d0f-4f0a-9a3f-0d3c6b2c1a11",
    "session": {"installation_id": "i", "document_id": "d"},
    "document": {
        "path": "src/a.py",
        "repository": "git@host:acme/web.git",
        "language": "python",
        "version": 17,
        "prefix_start_line": 0,
        "prefix": "x = ",
        "suffix": "\n",
    },
    "snippets": [{"kind": "open_tab", "path": "b.py", "repository": "r", "text": "y = 1"}],
    "region_id": "r",
    "mode": "line",
    "trigger": "invoked",
    "deadline_ms": 300,
    "max_tokens": 64,
    "stream": True,
}


def changed(place: str, value: object) -> bytes:
    body = json.loads(json.dumps(WHOLE))
    *path, last = place.split(".")
    target = body
    for name in path:
        target = target[int(name) if name.isdigit() else name]
    target[last] = value
    return json.dumps(body).encode()


def test_the_documented_body_becomes_a_request() -> None:
    request = parse(json.dumps(WHOLE).encode(), ENVELOPE)
    assert request.document.version == 17
    assert request.snippets[0].text == "y = 1"
    assert (request.mode, request.trigger) == (RequestedMode.LINE, Trigger.INVOKED)
    assert (request.client_deadline_ms, request.client_max_tokens) == (300, 64)
    assert request.stream
    assert request.request_id == WHOLE["request_id"]
    assert request.completion_id == "c-1"


def test_a_prefix_alone_is_enough_and_our_id_names_the_request() -> None:
    request = parse(b'{"document":{"prefix":""}}', ENVELOPE)
    assert (request.document.prefix, request.document.suffix) == ("", "")
    assert request.request_id == "c-1"
    assert request.mode is RequestedMode.AUTO


def test_unknown_fields_of_a_newer_client_are_ignored() -> None:
    assert parse(changed("document.cursor_shape", "block"), ENVELOPE).document.prefix == "x = "


@pytest.mark.parametrize(
    ("place", "value", "field", "says"),
    [
        ("deadline_ms", 0, "deadline_ms", "from 1 to 60000, got 0"),
        ("deadline_ms", "300", "deadline_ms", "`int"),
        ("max_tokens", 5000, "max_tokens", "from 1 to 4096, got 5000"),
        ("mode", "page", "mode", "page"),
        ("document.prefix", None, "document.prefix", "`str`"),
        ("document.path", "p" * 4097, "document.path", "at most 4096 characters, got 4097"),
        ("document.version", -1, "document.version", "got -1"),
        ("document.prefix_start_line", -1, "document.prefix_start_line", "got -1"),
        ("snippets", [WHOLE["snippets"][0]] * 65, "snippets", "at most 64 snippets, got 65"),
        ("snippets.0.kind", "clipboard", "snippets[0].kind", "clipboard"),
        ("snippets.0.path", "p" * 5000, "snippets[0].path", "got 5000"),
        ("request_id", "not-a-uuid", "request_id", "a UUID, got 10"),
        ("session.installation_id", "i" * 300, "session.installation_id", "at most 256"),
    ],
)
def test_a_malformed_field_is_named_with_its_limit_and_value(
    place: str, value: object, field: str, says: str
) -> None:
    with pytest.raises(MalformedRequestError) as caught:
        parse(changed(place, value), ENVELOPE)
    assert caught.value.field == field
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"x":' + b"[" * 200_000,
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"document":{"prefix":"\xff"}}',
    ],
)
def test_what_is_no_request_at_all_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        parse(body, ENVELOPE)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_request_error(body: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        parse(body, ENVELOPE)


@pytest.mark.parametrize("lone", ["\ud800", "a\ud83d", "\ude00\ud83d", "\\\ud800"])
def test_half_characters_are_replaced_one_for_one(lone: str) -> None:
    prefix = parse(json.dumps({"document": {"prefix": lone}}).encode(), ENVELOPE).document.prefix
    assert len(prefix) == len(lone)
    prefix.encode()


@given(st.text())
def test_whole_text_survives_the_replacement_of_half_characters(text: str) -> None:
    encoded = json.dumps(text).encode()
    assert without_lone_surrogates(encoded) == encoded


def test_modes_of_wire_and_service_have_the_same_words() -> None:
    assert {*Mode} < {*RequestedMode}
