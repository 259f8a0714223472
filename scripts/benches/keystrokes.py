"""How a text is typed: the keys, the pauses between them, and which of them ask for a completion.

A model of a typist, seeded and repeatable: pauses are log-normal, short within a word (bursts),
longer before one and at a new line, and now and then somebody thinks. Some characters are typed
wrong, noticed a little later and taken back. It is a fast typist: 166 ms a key on average, thinking
included. Slower ones ask more often in the same text, and find more of it in the cache.
"""

import math
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

DEBOUNCE_MS = 150
"""An editor asks when no key has come for this long. VS Code's own bounds were 50 and 200 ms
(microsoft/vscode, issue 150734); a short one asks more often and finds more in the cache."""

MISTAKES_PER_CHARACTER = 0.02
THOUGHTS_PER_WORD = 0.04
LETTERS = "etaoinsrhdlu"
PIECES = re.compile(r"\n[ \t]*|.")
"""What one key writes: a character, or a line break with the indentation that the editor adds."""


class Kind(StrEnum):
    """What a key does. Of several keys between two requests, the first one here counts."""

    OPENED = "document opened"
    JUMPED = "cursor moved elsewhere"
    NEW_LINE = "line break"
    BACKSPACE = "backspace"
    CHARACTER = "character"


WEIGHT = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True)
class Key:
    """One key: how long after the one before, and what it does to the text at the cursor.

    `text` is appended, or with `kind` BACKSPACE the last character is taken away.
    """

    pause_ms: float
    kind: Kind
    text: str = ""


@dataclass(frozen=True)
class Rhythm:
    """A log-normal pause."""

    median_ms: float
    sigma: float

    def draw(self, rng: random.Random) -> float:
        """One pause in milliseconds."""
        return rng.lognormvariate(math.log(self.median_ms), self.sigma)


WITHIN_WORD = Rhythm(120, 0.35)
BEFORE_WORD = Rhythm(190, 0.5)
AFTER_LINE_BREAK = Rhythm(450, 0.8)
BEFORE_BACKSPACE = Rhythm(250, 0.4)
HELD_BACKSPACE = Rhythm(90, 0.3)
THOUGHT = Rhythm(1500, 0.5)
MOVEMENT = Rhythm(2000, 0.4)
"""Of the cursor to another place."""


def typed(text: str, rng: random.Random) -> Iterator[Key]:
    """The keys that leave `text`; the editor puts the indentation of a new line there by itself."""
    pieces = PIECES.findall(text)
    before = "\n"
    for index, piece in enumerate(pieces):
        if piece.isalpha() and rng.random() < MISTAKES_PER_CHARACTER:
            yield from _mistake(pieces[index + 1 : index + 1 + rng.randint(0, 2)], before, rng)
        yield _key(piece, before, rng)
        before = piece


def _mistake(following: list[str], before: str, rng: random.Random) -> Iterator[Key]:
    """A wrong letter, what was typed before it was noticed, and backspaces over both."""
    line = list(takewhile(lambda piece: piece[0] != "\n", following))
    for piece in (rng.choice(LETTERS), *line):
        yield _key(piece, before, rng)
        before = piece
    for number in range(1 + len(line)):
        rhythm = HELD_BACKSPACE if number else BEFORE_BACKSPACE
        yield Key(rhythm.draw(rng), Kind.BACKSPACE)


def _key(piece: str, before: str, rng: random.Random) -> Key:
    if piece[0] == "\n":
        return Key(WITHIN_WORD.draw(rng), Kind.NEW_LINE, piece)
    if before.isspace():
        pause_ms = (AFTER_LINE_BREAK if before[0] == "\n" else BEFORE_WORD).draw(rng)
        if rng.random() < THOUGHTS_PER_WORD:
            pause_ms += THOUGHT.draw(rng)
        return Key(pause_ms, Kind.CHARACTER, piece)
    return Key(WITHIN_WORD.draw(rng), Kind.CHARACTER, piece)


@dataclass(frozen=True)
class Moment:
    """The document after one key: what stands around the cursor, and where the editor knows it is.

    `at_ms` counts from the opening of the document.
    """

    at_ms: float
    kind: Kind
    before: str
    after: str
    version: int
    region: str


def asked(moments: Iterable[Moment], debounce_ms: float) -> Iterator[Moment]:
    """The moments at which an editor asks: those that no other key follows within `debounce_ms`."""
    pending: Moment | None = None
    for moment in moments:
        if pending is None:
            pending = moment
        elif moment.at_ms - pending.at_ms >= debounce_ms:
            yield pending
            pending = moment
        else:
            kind = min(pending.kind, moment.kind, key=WEIGHT.__getitem__)
            pending = replace(moment, kind=kind)
    if pending is not None:
        yield pending
