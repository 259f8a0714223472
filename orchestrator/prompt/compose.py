"""Parts in, prompt out: what stands where, and what is left out when room is short. Pure.

Suffix first, so that typing only appends: header, snippets, suffix, then prefix. For models that
were trained the other way the prefix leads, and everything after the cursor's line is volatile.
The line of the cursor is never dropped; of a line longer than the room its end is kept.
"""

from __future__ import annotations

from array import array

from orchestrator.prompt.engine_manifest import FimFamily, FimTemplate
from orchestrator.prompt.fitting import fit_head
from orchestrator.prompt.line_cuts import CutStyle
from orchestrator.prompt.parts import Dropped, DropReason, Encode, FimPrompt, PromptParts
from orchestrator.prompt.prefix_window import PrefixWindow, prefix_window
from orchestrator.prompt.recipe import PromptRecipe, Section
from orchestrator.request import Snippet

_MARKER_TOKENS = 4
"""Begin-of-text, prefix, suffix and middle marker, whether a family has them or not."""

_SNIPPET_TOKENS_MIN = 16
"""A shorter rest of a snippet says nothing."""


def compose(
    parts: PromptParts,
    *,
    recipe: PromptRecipe,
    template: FimTemplate,
    budget_tokens: int,
    style: CutStyle,
    encode: Encode,
    encode_tail: Encode,
) -> FimPrompt:
    """A prompt of at most `budget_tokens` tokens. Raises nothing, whatever the texts are.

    `encode` is used for texts that outlive a keystroke, `encode_tail` for the rest.
    """
    dropped: list[Dropped] = []
    budget = budget_tokens - _MARKER_TOKENS
    rooms = recipe.rooms(budget)
    head = _snippets(parts, template, rooms[Section.SNIPPETS], encode, dropped)
    head += _header(parts.path, template, rooms[Section.HEADER], encode, dropped)
    suffix = _suffix(parts.suffix, rooms[Section.SUFFIX], encode, dropped)
    window = prefix_window(
        parts.prefix,
        parts.prefix_start_line,
        room=budget - len(head) - len(suffix),
        style=style,
        encode=encode,
        encode_tail=encode_tail,
    )
    if window.truncated:
        dropped.append(Dropped(Section.PREFIX, DropReason.TRUNCATED))
    return _arranged(template, head, suffix, window, tuple(dropped))


def _arranged(
    template: FimTemplate,
    head: array[int],
    suffix: array[int],
    window: PrefixWindow,
    dropped: tuple[Dropped, ...],
) -> FimPrompt:
    stable = array("i", [] if template.begin_id is None else [template.begin_id])
    stable += head
    if template.family is FimFamily.SUFFIX_FIRST:
        stable.append(template.suffix_id)
        stable += suffix
        stable.append(template.prefix_id)
        stable += window.stable
        ids = stable + window.tail
    else:
        stable.append(template.prefix_id)
        stable += window.stable
        ids = stable + window.tail
        ids.append(template.suffix_id)
        ids += suffix
    if template.middle_id is not None:
        ids.append(template.middle_id)
    return FimPrompt(ids, len(stable), dropped)


def _header(
    path: str, template: FimTemplate, room: int, encode: Encode, dropped: list[Dropped]
) -> array[int]:
    """The file's marker and path; of a long path its end. The file's own header stands last."""
    if template.file_separator_id is None or not path:
        return array("i")
    rest = path
    while rest:
        ids = array("i", [template.file_separator_id]) + encode(f"{rest}\n")
        if len(ids) <= room:
            return ids
        rest = rest.partition("/")[2]
    dropped.append(Dropped(Section.HEADER, DropReason.NO_ROOM))
    return array("i")


def _suffix(text: str, room: int, encode: Encode, dropped: list[Dropped]) -> array[int]:
    ids, cut = fit_head(text, room, encode)
    if cut:
        dropped.append(Dropped(Section.SUFFIX, DropReason.TRUNCATED))
    return ids


def _snippets(
    parts: PromptParts, template: FimTemplate, room: int, encode: Encode, dropped: list[Dropped]
) -> array[int]:
    """Snippets in the order given, each once, while there is room."""
    ids, seen = array("i"), set[str]()
    for snippet in parts.snippets:
        if template.file_separator_id is None:
            dropped.append(Dropped(Section.SNIPPETS, DropReason.NO_MARKER))
        elif snippet.text in seen:
            dropped.append(Dropped(Section.SNIPPETS, DropReason.DUPLICATE))
        elif room - len(ids) < _SNIPPET_TOKENS_MIN:
            dropped.append(Dropped(Section.SNIPPETS, DropReason.NO_ROOM))
        else:
            seen.add(snippet.text)
            body, cut = fit_head(_snippet_text(snippet), room - len(ids) - 1, encode)
            ids.append(template.file_separator_id)
            ids += body
            if cut:
                dropped.append(Dropped(Section.SNIPPETS, DropReason.TRUNCATED))
    return ids


def _snippet_text(snippet: Snippet) -> str:
    return f"{snippet.path}\n{snippet.text}\n"
