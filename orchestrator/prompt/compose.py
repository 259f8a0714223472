"""Parts in, prompt out: what stands where, and what is left out when room is short. Pure.

Snippets and header come first, then suffix and prefix in the recipe's or the model's order. With
the suffix first typing only appends; where the prefix leads, everything after the cursor's line is
volatile. The line of the cursor is never dropped; of a line longer than the room its end is kept.
"""

from __future__ import annotations

from array import array

from orchestrator.prompt.engine_manifest import FimTemplate
from orchestrator.prompt.fitting import fit_head
from orchestrator.prompt.line_cuts import CutStyle
from orchestrator.prompt.parts import Dropped, DropReason, Encode, FimPrompt, PromptParts
from orchestrator.prompt.prefix_window import PrefixWindow, prefix_window
from orchestrator.prompt.recipe import Layout, Section
from orchestrator.prompt.snippets import Remember, snippet_query, snippet_section


def compose(
    parts: PromptParts,
    *,
    layout: Layout,
    style: CutStyle,
    encode: Encode,
    encode_tail: Encode,
    remember: Remember = lambda _key, make: make(),
) -> FimPrompt:
    """A prompt within the layout's budget. Raises nothing, whatever the texts are.

    `encode` is used for texts that outlive a keystroke, `encode_tail` for the rest.
    """
    recipe, template, rooms = layout.recipe, layout.template, layout.rooms
    query = snippet_query(parts, recipe.snippets)
    snippets = snippet_section(
        parts.snippets,
        query,
        separator_id=template.file_separator_id,
        room=rooms[Section.SNIPPETS],
        encode=encode_tail,
        remember=remember,
    )
    dropped = list(snippets.dropped)
    header = _header(parts.path, template, rooms[Section.HEADER], encode, dropped)
    suffix = _suffix(parts.suffix, rooms[Section.SUFFIX], encode, dropped)
    room = layout.text_tokens - len(snippets.token_ids) - len(header) - len(suffix)
    window = prefix_window(
        parts.prefix,
        parts.prefix_start_line,
        room=min(room, layout.prefix_tokens_max),
        snap_lines=recipe.prefix_window.snap_lines,
        style=style,
        encode=encode,
        encode_tail=encode_tail,
    )
    if window.truncated:
        dropped.append(Dropped(Section.PREFIX, DropReason.TRUNCATED))
    head = array("i", [] if template.begin_id is None else [template.begin_id])
    head += snippets.token_ids + header
    ids, stable_tokens = _arranged(template, head, suffix, window, prefix_leads=layout.prefix_leads)
    return FimPrompt(ids, stable_tokens, tuple(dropped), snippets, query)


def _arranged(
    template: FimTemplate,
    stable: array[int],
    suffix: array[int],
    window: PrefixWindow,
    *,
    prefix_leads: bool,
) -> tuple[array[int], int]:
    """The prompt's tokens, and how many of them lead that typing does not change."""
    if prefix_leads:
        stable.append(template.prefix_id)
        stable += window.stable
        ids = stable + window.tail
        ids.append(template.suffix_id)
        ids += suffix
    else:
        stable.append(template.suffix_id)
        stable += suffix
        stable.append(template.prefix_id)
        stable += window.stable
        ids = stable + window.tail
    if template.middle_id is not None:
        ids.append(template.middle_id)
    return ids, len(stable)


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
