"""Line or block: the mode `auto`, decided by what stands around the cursor. Pure."""

from __future__ import annotations

from orchestrator.request import Document, Mode, RequestedMode

_OPENERS = (":", "{", "(", "[", "=>", "->")
_LOOK_BACK_CHARS = 2000
"""How far back the line that opens a block is looked for; blank lines beyond it mean a line."""


def shape_of(requested: RequestedMode, document: Document) -> Mode:
    """The mode to serve.

    `auto` is a block where the cursor stands on an empty line after one that opens a block, and a
    line everywhere else; text after the cursor always makes it a line, because a block cannot fit
    in front of it.
    """
    if requested is not RequestedMode.AUTO:
        return Mode(requested)
    return Mode.BLOCK if _opens_a_block(document) else Mode.LINE


def _opens_a_block(document: Document) -> bool:
    if document.suffix.partition("\n")[0].strip():
        return False
    before, newline, on_line = document.prefix[-_LOOK_BACK_CHARS:].rpartition("\n")
    if not newline or on_line.strip():
        return False
    return before.rstrip().endswith(_OPENERS)
