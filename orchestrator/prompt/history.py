"""How much of each session's prompt its previous one already had.

A bounded table of keyed hashes, one for each block of a prompt's tokens: neither tokens nor texts
are kept. It only counts; no decision follows from it, and losing it costs a count.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from enum import StrEnum
from itertools import takewhile

import msgspec

from orchestrator.prompt.parts import FimPrompt

BLOCK_TOKENS = 16
"""Shared tokens are counted in whole blocks, so by up to 15 too few."""

_TOKEN_BYTES = 4


class SnippetChange(StrEnum):
    """Why the snippet section differs from the session's previous prompt: a cold prefill."""

    REGION = "region"
    """The client names another region."""
    REFRESH = "refresh"
    """Same region; the lines that snippets are ranked against moved on, as scheduled."""
    CLIENT = "client"
    """Same region, same lines; the client sent other snippets."""


class Continuity(msgspec.Struct, frozen=True):
    """One prompt against the session's previous one; None where there is none to compare with."""

    shared_tokens: int | None = None
    snippet_change: SnippetChange | None = None


class _Previous(msgspec.Struct, frozen=True):
    blocks: array[int]
    snippets: int
    region: int
    query: int


class PromptHistory:
    """The last prompt of each session, as hashes; least recently used sessions first out."""

    def __init__(self, sessions_max: int = 4096) -> None:
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[str, _Previous] = OrderedDict()

    def compare(self, session_key: str, region_id: str, prompt: FimPrompt) -> Continuity:
        """What `prompt` shares with the session's previous one, whose place it takes."""
        key = session_key.encode()
        present = _Previous(
            blocks=_block_hashes(prompt.token_ids, key),
            snippets=hash((key, prompt.snippets.token_ids.tobytes())),
            region=hash((key, region_id)),
            query=hash((key, prompt.snippet_query)),
        )
        previous = self._sessions.pop(session_key, None)
        self._sessions[session_key] = present
        if len(self._sessions) > self._sessions_max:
            self._sessions.popitem(last=False)
        if previous is None:
            return Continuity()
        return Continuity(_shared_tokens(previous, present), _change(previous, present))


def _block_hashes(token_ids: array[int], key: bytes) -> array[int]:
    """A hash for each whole block.

    Python hashes bytes with SipHash under a key that is drawn at random for each process; the
    session's key in front makes equal blocks of two sessions differ, and keeps the hash a secret
    one where that randomness is switched off. BLAKE2b takes four to five times as long.
    """
    content, size = token_ids.tobytes(), BLOCK_TOKENS * _TOKEN_BYTES
    whole = len(content) - len(content) % size
    return array("q", [hash(key + content[at : at + size]) for at in range(0, whole, size)])


def _shared_tokens(previous: _Previous, present: _Previous) -> int:
    pairs = zip(previous.blocks, present.blocks, strict=False)
    return BLOCK_TOKENS * sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _change(previous: _Previous, present: _Previous) -> SnippetChange | None:
    if previous.snippets == present.snippets:
        return None
    if previous.region != present.region:
        return SnippetChange.REGION
    return SnippetChange.REFRESH if previous.query != present.query else SnippetChange.CLIENT
