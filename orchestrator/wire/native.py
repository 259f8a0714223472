"""The native wire format: `POST /v1/inline-completions` (docs: the HTTP contract).

Unknown fields are ignored, so that a newer client works with an older server. Every known field is
checked against its limit before anything else sees it. Answers are compact JSON.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from orchestrator.record.recorder import Answer
from orchestrator.request import (
    Client,
    CompletionRequest,
    Document,
    EditingSession,
    Principal,
    RequestedMode,
    Snippet,
    SnippetKind,
    Trigger,
)
from orchestrator.wire.malformed import MalformedRequestError, without_lone_surrogates

PATH_CHARS_MAX = 4096
ID_CHARS_MAX = 256
SNIPPETS_MAX = 64
LINE_NUMBER_MAX = 100_000_000
DEADLINE_MS_MAX = 60_000
TOKENS_MAX = 4096
VERSION_MAX = 2**53 - 1
"""The largest integer that a JavaScript client can count to."""


class _Session(msgspec.Struct):
    installation_id: str = ""
    document_id: str = ""


class _Document(msgspec.Struct):
    prefix: str
    suffix: str = ""
    path: str = ""
    repository: str = ""
    language: str = ""
    version: int | None = None
    prefix_start_line: int | None = None


class _Snippet(msgspec.Struct):
    kind: SnippetKind
    text: str
    path: str = ""
    repository: str = ""


class _Body(msgspec.Struct):
    document: _Document
    request_id: str = ""
    session: _Session = msgspec.field(default_factory=_Session)
    snippets: list[_Snippet] = []
    region_id: str = ""
    mode: RequestedMode = RequestedMode.AUTO
    trigger: Trigger = Trigger.AUTOMATIC
    deadline_ms: int | None = None
    max_tokens: int | None = None
    stream: bool = False


class Envelope(msgspec.Struct, frozen=True):
    """What is known of a request beside its body; times as in `CompletionRequest`."""

    completion_id: str
    principal: Principal
    client: Client
    received_ms: float
    arrived_ms: float


_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, or are nested without end."""

_decoder = msgspec.json.Decoder(_Body)
_encoder = msgspec.json.Encoder()


def parse(body: bytes, envelope: Envelope) -> CompletionRequest:
    """The request in `body`; raises `MalformedRequestError` naming the field."""
    parsed = _decoded(body)
    _check(parsed)
    return CompletionRequest(
        completion_id=envelope.completion_id,
        request_id=parsed.request_id or envelope.completion_id,
        principal=envelope.principal,
        client=envelope.client,
        session=EditingSession(parsed.session.installation_id, parsed.session.document_id),
        document=_document(parsed.document),
        snippets=tuple(
            Snippet(each.kind, each.text, each.path, each.repository) for each in parsed.snippets
        ),
        region_id=parsed.region_id,
        mode=parsed.mode,
        trigger=parsed.trigger,
        client_deadline_ms=parsed.deadline_ms,
        client_max_tokens=parsed.max_tokens,
        stream=parsed.stream,
        received_ms=envelope.received_ms,
        arrived_ms=envelope.arrived_ms,
    )


def _decoded(body: bytes) -> _Body:
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _malformed(error) from None
    except _NOT_JSON:
        try:
            return _decoder.decode(without_lone_surrogates(body))
        except msgspec.ValidationError as error:
            raise _malformed(error) from None
        except _NOT_JSON as error:
            raise MalformedRequestError(f"body: {error}; it must be JSON in UTF-8") from None


def _malformed(error: msgspec.ValidationError) -> MalformedRequestError:
    """msgspec names the place as ` - at `$.a.b``; the field is the part after the dollar."""
    message, _, place = str(error).partition(" - at ")
    field = place.strip("`").removeprefix("$").removeprefix(".")
    return MalformedRequestError(f"{field or 'body'}: {message}", field or None)


def _check(body: _Body) -> None:
    """Limits that a type cannot say; the first broken one is reported."""
    document = body.document
    _at_most("document.path", len(document.path), PATH_CHARS_MAX, "characters")
    _at_most("document.repository", len(document.repository), PATH_CHARS_MAX, "characters")
    _at_most("document.language", len(document.language), ID_CHARS_MAX, "characters")
    _at_most(
        "session.installation_id", len(body.session.installation_id), ID_CHARS_MAX, "characters"
    )
    _at_most("session.document_id", len(body.session.document_id), PATH_CHARS_MAX, "characters")
    _at_most("region_id", len(body.region_id), ID_CHARS_MAX, "characters")
    _at_most("snippets", len(body.snippets), SNIPPETS_MAX, "snippets")
    for index, snippet in enumerate(body.snippets):
        _at_most(f"snippets[{index}].path", len(snippet.path), PATH_CHARS_MAX, "characters")
    _within("document.version", document.version, 0, VERSION_MAX)
    _within("document.prefix_start_line", document.prefix_start_line, 0, LINE_NUMBER_MAX)
    _within("deadline_ms", body.deadline_ms, 1, DEADLINE_MS_MAX)
    _within("max_tokens", body.max_tokens, 1, TOKENS_MAX)
    if body.request_id:
        _uuid("request_id", body.request_id)


def _at_most(field: str, actual: int, limit: int, unit: str) -> None:
    if actual > limit:
        raise MalformedRequestError(f"{field}: at most {limit} {unit}, got {actual}", field)


def _within(field: str, actual: int | None, low: int, high: int) -> None:
    if actual is not None and not low <= actual <= high:
        raise MalformedRequestError(f"{field}: from {low} to {high}, got {actual}", field)


def _uuid(field: str, value: str) -> None:
    try:
        if len(value) <= 36:
            UUID(value)
            return
    except ValueError:
        pass
    raise MalformedRequestError(f"{field}: a UUID, got {len(value)} other characters", field)


def _document(document: _Document) -> Document:
    return Document(
        prefix=document.prefix,
        suffix=document.suffix,
        path=document.path,
        repository=document.repository,
        language=document.language,
        version=document.version,
        prefix_start_line=document.prefix_start_line,
    )


def render(answer: Answer) -> bytes:
    """The whole answer as compact JSON."""
    return _encoder.encode({"id": answer.record.completion_id, "suggestion": answer.suggestion}
                           | _facts(answer))  # fmt: skip


def render_events(answer: Answer) -> bytes:
    """The same as server-sent events: the text if there is one, then the rest of the answer."""
    text = _event({"text": answer.suggestion}) if answer.suggestion else b""
    return text + _event({"id": answer.record.completion_id} | _facts(answer))


def render_error(error: Exception, code: str, field: str | None) -> bytes:
    """What was wrong with a request, for a person who writes a client."""
    return _encoder.encode({"error": {"code": code, "field": field, "message": str(error)}})


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + _encoder.encode(content) + b"\n\n"


def _facts(answer: Answer) -> dict[str, Any]:
    record = answer.record
    return {
        "outcome": record.outcome,
        "reason": record.reason,
        "mode": record.mode,
        "document_version": answer.request.document.version,
        "matches": [],
        "model": record.model,
        "recipe": record.recipe,
        "arm": record.arm,
        "policy_version": record.policy_version,
        "usage": record.usage,
        "timings_ms": record.times,
    }
