"""Editing sessions for benches: real Python files, typed on at a cursor, as an editor sends them.

The text is CPython's standard library of the interpreter that runs the bench: real code, there on
every machine, and the same for the same Python version. The reference model has seen it in
training, which does not matter for times; benches of quality take other text.
"""

import random
import sysconfig
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

FILE_BYTES_MIN = 12_000
FILE_BYTES_MAX = 60_000


def source_files() -> list[Path]:
    """Standard-library files long enough to fill a prompt on both sides of the cursor, sorted."""
    library = Path(sysconfig.get_path("stdlib"))
    return sorted(
        path
        for path in library.glob("*.py")
        if FILE_BYTES_MIN <= path.stat().st_size <= FILE_BYTES_MAX
    )


@dataclass
class EditingSession:
    """One developer who writes a missing part of a file: the file's own text is what is typed.

    `cursor` and `suffix_start` are offsets into `text` in characters. What lies between them is
    not there yet; typing moves the cursor towards `suffix_start`, and the suffix stays as it is.
    """

    installation_id: str
    document_id: str
    path: str
    text: str
    cursor: int
    suffix_start: int
    version: int = 0

    def type(self, characters: int) -> None:
        """Types the next characters; at the end of the missing part nothing more is typed."""
        self.cursor = min(self.suffix_start, self.cursor + characters)
        self.version += 1

    @property
    def prefix(self) -> str:
        """What stands before the cursor."""
        return self.text[: self.cursor]

    @property
    def suffix(self) -> str:
        """What stands after the cursor."""
        return self.text[self.suffix_start :]

    def body(self, *, mode: str, max_tokens: int, deadline_ms: int) -> bytes:
        """The request as JSON."""
        return msgspec.json.encode(
            {
                "session": {
                    "installation_id": self.installation_id,
                    "document_id": self.document_id,
                },
                "document": {
                    "path": self.path,
                    "language": "python",
                    "version": self.version,
                    "prefix_start_line": 0,
                    "prefix": self.prefix,
                    "suffix": self.suffix,
                },
                "mode": mode,
                "trigger": "automatic",
                "deadline_ms": deadline_ms,
                "max_tokens": max_tokens,
            }
        )


MISSING_LINES = 12


def _gap(rng: random.Random, text: str) -> tuple[int, int]:
    """Cursor and suffix start: a gap of some lines from within a line of code mid-file."""
    lines = text.splitlines(keepends=True)
    start = rng.randrange(len(lines) * 2 // 5, len(lines) * 4 // 5)
    for number in range(start, len(lines)):
        stripped = lines[number].strip()
        if len(stripped) > 12 and not stripped.startswith(("#", '"', "'")):
            indentation = len(lines[number]) - len(lines[number].lstrip())
            cursor = sum(map(len, lines[:number])) + indentation + rng.randrange(2, 8)
            break
    else:
        number, cursor = start, sum(map(len, lines[:start]))
    return cursor, sum(map(len, lines[: number + MISSING_LINES]))


def editing_sessions(seed: int) -> Iterator[EditingSession]:
    """An endless, repeatable stream of sessions, each new to every cache."""
    rng = random.Random(seed)
    files = source_files()
    while True:
        path = rng.choice(files)
        text = path.read_text(encoding="utf-8")
        cursor, suffix_start = _gap(rng, text)
        yield EditingSession(
            installation_id=str(uuid.UUID(int=rng.getrandbits(128))),
            document_id=str(uuid.UUID(int=rng.getrandbits(128))),
            path=f"lib/{path.name}",
            text=text,
            cursor=cursor,
            suffix_start=suffix_start,
        )
