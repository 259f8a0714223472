"""Which snippets go into a prompt, and their tokens. Pure.

Chosen by identifier overlap with the lines that `snippet_query` picks (Jaccard index: shared
identifiers over all), ties in the client's order, while there is room. They stand in the order of
their paths, so that a client that sends them in another order moves nothing. The same text appears
once, also within a longer snippet.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

from orchestrator.prompt.fitting import CHARS_PER_TOKEN_MAX, fit_head
from orchestrator.prompt.parts import Dropped, DropReason, Encode, PromptParts, Segment
from orchestrator.prompt.recipe import Section, SnippetRule
from orchestrator.prompt.snippet_query import query_of
from orchestrator.request import Snippet

_SNIPPET_TOKENS_MIN = 16
"""A shorter rest of a snippet says nothing."""

_IDENTIFIER = re.compile(r"[^\W\d]\w{2,}")
"""Names of three characters and more; shorter ones are everywhere."""


Remember = Callable[[bytes, Callable[[], Segment]], Segment]
"""The section under a key if it is known, else what the function makes of it."""


def snippet_query(parts: PromptParts, rule: SnippetRule) -> str:
    """The lines that the snippets of a request are ranked against; empty without snippets."""
    if not parts.snippets:
        return ""
    return query_of(
        parts.prefix,
        parts.prefix_start_line,
        in_region=bool(parts.region_id),
        query_lines=rule.query_lines,
        refresh_lines=rule.refresh_lines,
    )


def snippet_section(
    snippets: Sequence[Snippet],
    query: str,
    *,
    separator_id: int | None,
    room: int,
    encode: Encode,
    remember: Remember,
) -> Segment:
    """The section for these snippets, of at most `room` tokens.

    It is a function of the arguments alone; `remember` may only save making it again.
    """
    if not snippets:
        return Segment()
    if separator_id is None:
        return Segment(dropped=tuple(_dropped(DropReason.NO_MARKER) for _ in snippets))
    marker = separator_id

    def make() -> Segment:
        dropped: list[Dropped] = []
        unique = _without_repetitions(snippets, room, dropped)
        chosen = _fitted(ranked(unique, query, room), marker, room, encode, dropped)
        ids = array("i")
        for _, tokens in sorted(chosen, key=lambda each: each[0]):
            ids += tokens
        return Segment(ids, tuple(dropped))

    return remember(_key(snippets, query, room), make)


def ranked(snippets: Sequence[Snippet], query: str, room: int) -> list[Snippet]:
    """The snippets by falling overlap with `query`, as far as each could fit into `room` tokens."""
    wanted = _identifiers(query)
    if not wanted:
        return list(snippets)
    chars = room * CHARS_PER_TOKEN_MAX
    return sorted(snippets, key=lambda each: -overlap(wanted, _identifiers(each.text[:chars])))


def overlap(ours: frozenset[str], theirs: frozenset[str]) -> float:
    """The Jaccard index of two sets, 0 to 1."""
    shared = len(ours & theirs)
    return shared / (len(ours) + len(theirs) - shared) if shared else 0.0


def _identifiers(text: str) -> frozenset[str]:
    return frozenset(_IDENTIFIER.findall(text))


def _without_repetitions(
    snippets: Sequence[Snippet], room: int, dropped: list[Dropped]
) -> list[Snippet]:
    """In the order given, without blank ones and those whose text is within another one's.

    Compared is as much of a text as could fit.
    """
    kept: list[Snippet] = []
    texts = [each.text[: room * CHARS_PER_TOKEN_MAX].strip() for each in snippets]
    by_length = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    unique: dict[str, int] = {}
    for index in by_length:
        if texts[index] and not any(texts[index] in longer for longer in unique):
            unique[texts[index]] = index
    for index, snippet in enumerate(snippets):
        if unique.get(texts[index]) == index:
            kept.append(snippet)
        else:
            dropped.append(_dropped(DropReason.DUPLICATE if texts[index] else DropReason.EMPTY))
    return kept


def _fitted(
    snippets: Sequence[Snippet],
    separator_id: int,
    room: int,
    encode: Encode,
    dropped: list[Dropped],
) -> Iterator[tuple[tuple[str, str], array[int]]]:
    """Each snippet that still finds room, the best first: its sorting key and its tokens."""
    for snippet in snippets:
        if room < _SNIPPET_TOKENS_MIN:
            dropped.append(_dropped(DropReason.NO_ROOM))
            continue
        body, cut = fit_head(f"{snippet.path}\n{snippet.text}\n", room - 1, encode)
        if cut:
            dropped.append(_dropped(DropReason.TRUNCATED))
        room -= 1 + len(body)
        yield (snippet.path, snippet.text), array("i", [separator_id]) + body


def _key(snippets: Sequence[Snippet], query: str, room: int) -> bytes:
    """A digest of everything that the section follows from, beside the engine."""
    hasher = blake2b(room.to_bytes(4, "big"), digest_size=32)
    texts = (query, *(text for each in snippets for text in (each.path, each.text)))
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        hasher.update(len(content).to_bytes(4, "big"))
        hasher.update(content)
    return hasher.digest()


def _dropped(reason: DropReason) -> Dropped:
    return Dropped(Section.SNIPPETS, reason)
