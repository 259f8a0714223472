"""The core types of a request, whatever wire format it came in.

Every wire format becomes one `CompletionRequest`; nothing behind the wire modules knows how the
request looked. All types are immutable values. This module must stay free of I/O, clocks and
frameworks.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class RequestedMode(StrEnum):
    """What the client asks for; `auto` lets the server choose by the document's shape."""

    AUTO = "auto"
    LINE = "line"
    BLOCK = "block"


class Mode(StrEnum):
    """The shape that is served: one line, or a block of lines."""

    LINE = "line"
    BLOCK = "block"


class Trigger(StrEnum):
    """Why the client asks. Shedding goes by it: speculative and warm-up work goes first."""

    AUTOMATIC = "automatic"
    INVOKED = "invoked"
    SPECULATIVE = "speculative"
    WARMUP = "warmup"


class SnippetKind(StrEnum):
    """Where a snippet of context comes from."""

    OPEN_TAB = "open_tab"
    RECENT_EDIT = "recent_edit"
    DECLARATION = "declaration"
    REPOSITORY = "repository"


class Tier(StrEnum):
    """What the tenant pays for."""

    FREE = "free"
    BUSINESS = "business"
    ENTERPRISE = "enterprise"


class Role(StrEnum):
    """What the principal may do beyond asking for completions."""

    USER = "user"
    TENANT_ADMIN = "tenant_admin"
    OPERATOR = "operator"


class Principal(msgspec.Struct, frozen=True):
    """Who asks, as verified at the edge."""

    tenant: str
    user: str
    tier: Tier
    role: Role


class Client(msgspec.Struct, frozen=True):
    """The editor plugin, from `x-client: <name>/<version>`; empty strings where it is not sent."""

    name: str = ""
    version: str = ""


class EditingSession(msgspec.Struct, frozen=True):
    """What the client names its installation and document; empty where its wire has no ids."""

    installation_id: str = ""
    document_id: str = ""


class Document(msgspec.Struct, frozen=True):
    """The text around the cursor. `prefix` ends and `suffix` begins at the cursor."""

    prefix: str
    suffix: str
    path: str = ""
    repository: str = ""
    language: str = ""
    version: int | None = None
    prefix_start_line: int | None = None
    """The file's line, from 0, at which `prefix` begins; None where the client does not say."""


class Snippet(msgspec.Struct, frozen=True):
    """A piece of other text that the client thinks is worth the model's attention."""

    kind: SnippetKind
    text: str
    path: str = ""
    repository: str = ""


class Deadline(msgspec.Struct, frozen=True):
    """The moment after which an answer is worth nothing.

    `at_ms` is on the injected monotonic clock. `limit_ms` is the span from the edge's receipt.
    """

    at_ms: float
    limit_ms: int

    def remaining_ms(self, now_ms: float) -> float:
        """Milliseconds left; zero or negative when it is too late."""
        return self.at_ms - now_ms


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a suggestion, validated.

    `completion_id` is ours and unique; `request_id` is the client's (or the same). Both time
    fields are on the injected monotonic clock: `received_ms` is the edge's receipt, `arrived_ms`
    the moment this process saw the request.
    """

    completion_id: str
    request_id: str
    principal: Principal
    client: Client
    session: EditingSession
    document: Document
    snippets: tuple[Snippet, ...] = ()
    region_id: str = ""
    mode: RequestedMode = RequestedMode.AUTO
    trigger: Trigger = Trigger.AUTOMATIC
    client_deadline_ms: int | None = None
    client_max_tokens: int | None = None
    stream: bool = False
    received_ms: float
    arrived_ms: float
