"""The one shape of all rules and filters. Pure values."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from orchestrator.request import Document, Mode


class Context(msgspec.Struct, frozen=True):
    """What a rule may look at beside the text: the document, the mode, our name of its language."""

    document: Document
    mode: Mode
    language: str

    @property
    def rest_of_line(self) -> str:
        """The cursor's line after the cursor, without its line ending."""
        return self.document.suffix.partition("\n")[0].removesuffix("\r")


class Kept(msgspec.Struct, frozen=True):
    """The text goes on, changed or not."""

    text: str


class Dropped(msgspec.Struct, frozen=True):
    """Nothing is shown; `rule` names who said so."""

    rule: str


FilterVerdict = Kept | Dropped

Rule = Callable[[str, Context], FilterVerdict]
