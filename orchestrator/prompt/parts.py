"""What goes into a composition and what comes out. Pure values."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import StrEnum

import msgspec

from orchestrator.prompt.recipe import Section
from orchestrator.request import CompletionRequest, Snippet

Encode = Callable[[str], "array[int]"]
"""Text to token ids, the same ids for the same text, never a control id."""


class PromptParts(msgspec.Struct, frozen=True):
    """The texts of a request that a prompt may use."""

    prefix: str
    suffix: str
    path: str = ""
    prefix_start_line: int | None = None
    snippets: tuple[Snippet, ...] = ()
    region_id: str = ""

    @staticmethod
    def of(request: CompletionRequest) -> PromptParts:
        """The parts of `request`."""
        document = request.document
        return PromptParts(
            document.prefix,
            document.suffix,
            document.path,
            document.prefix_start_line,
            request.snippets,
            request.region_id,
        )


class DropReason(StrEnum):
    """Why a section is not in the prompt, or not whole."""

    TRUNCATED = "truncated"
    NO_ROOM = "no_room"
    DUPLICATE = "duplicate"
    EMPTY = "empty"
    NO_MARKER = "no_marker"


class Dropped(msgspec.Struct, frozen=True):
    """One section, or one snippet of it, that was left out or cut."""

    section: Section
    reason: DropReason


class Segment(msgspec.Struct, frozen=True):
    """Tokens of a text or section that outlives a keystroke, and what was left out of it."""

    token_ids: array[int] = msgspec.field(default_factory=lambda: array("i"))
    dropped: tuple[Dropped, ...] = ()


class FimPrompt(msgspec.Struct, frozen=True):
    """A rendered prompt.

    `token_ids` are 32-bit ids, without the salt. The first `stable_tokens` of them stay the same
    while characters are appended on the cursor's line. `dropped` has one entry per cut. `snippets`
    are the tokens of that section, `snippet_query` the lines that it was chosen for; `held` is the
    end of the prefix that is not in the prompt, because the model is to write it again.
    """

    token_ids: array[int]
    stable_tokens: int
    dropped: tuple[Dropped, ...]
    snippets: Segment = Segment()
    snippet_query: str = ""
    held: str = ""
