"""Editing sessions that write real functions into real files, key by key.

The files are those of installed packages that the reference model was not trained on. From each,
two functions or methods and one import are taken out; a session writes them again with the rest of
the file standing around. In the middle of the first function it goes to the top of the file, adds
the import, and comes back: so each document is opened once and has three jumps. Four files of the
same package stand for the editor's other open tabs.
"""

import ast
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec

from scripts.benches.keystrokes import MOVEMENT, Key, Kind, Moment, asked, typed
from scripts.benches.unseen_code import UnseenFile, unseen_files

FUNCTIONS_PER_DOCUMENT = 2
FUNCTION_CHARS_MIN, FUNCTION_CHARS_MAX = 150, 600
FUNCTION_LINES_MIN = 5
FILE_CHARS_MIN = 6_000
PREFIX_CHARS_MAX, SUFFIX_CHARS_MAX = 32_768, 16_384
"""What the editor sends around the cursor."""

TABS, TAB_LINES = 4, 40
"""Open tabs that are sent along, and the lines of each."""


@dataclass(frozen=True)
class Gap:
    """A part of a file that is not written yet: offsets in characters, and where an editor says it
    lies (the name of the function)."""

    start: int
    end: int
    region: str


@dataclass(frozen=True)
class TypingSession:
    """One document of one developer. `gaps` are the import and the functions, in file order."""

    installation_id: str
    document_id: str
    file: UnseenFile
    gaps: tuple[Gap, ...]
    tabs: tuple[UnseenFile, ...]
    seed: int

    @property
    def functions(self) -> int:
        """How many functions are written."""
        return len(self.gaps) - 1

    def moments(self) -> Iterator[Moment]:
        """The document after each key."""
        rng = random.Random(self.seed)
        text = self.file.text
        ends = [0, *(gap.end for gap in self.gaps)]
        starts = [*(gap.start for gap in self.gaps), len(text)]
        fixed = [text[end:start] for end, start in zip(ends, starts, strict=True)]
        written = [""] * len(self.gaps)
        at_ms, version = 0.0, 0
        for number, key in self._keys(rng):
            at_ms += key.pause_ms
            version += key.kind not in (Kind.OPENED, Kind.JUMPED)
            before = written[number][:-1] if key.kind is Kind.BACKSPACE else written[number]
            written[number] = before + key.text
            pieces = [piece for pair in zip(fixed, [*written, ""], strict=True) for piece in pair]
            cursor = 2 * number + 2
            yield Moment(
                at_ms,
                key.kind,
                "".join(pieces[:cursor]),
                "".join(pieces[cursor:]),
                version,
                self.gaps[number].region,
            )

    def _keys(self, rng: random.Random) -> Iterator[tuple[int, Key]]:
        """The keys, each with the number of the gap that it goes into."""
        texts = [self.file.text[gap.start : gap.end] for gap in self.gaps]
        break_at = _line_break_near_middle(texts[1])
        yield 1, Key(0.0, Kind.OPENED)
        visits = [(1, texts[1][:break_at]), (0, texts[0]), (1, texts[1][break_at:])]
        visits += list(enumerate(texts))[2:]
        for visit, (number, text) in enumerate(visits):
            if visit:
                yield number, Key(MOVEMENT.draw(rng), Kind.JUMPED)
            yield from ((number, key) for key in typed(text, rng))

    def requests(self, debounce_ms: float) -> Iterator[Moment]:
        """The moments at which the editor asks for a completion."""
        return asked(self.moments(), debounce_ms)

    def body(self, moment: Moment, *, max_tokens: int, deadline_ms: int) -> bytes:
        """The request as JSON: a line, because its answer always carries the engine's figures."""
        start = window_start(moment.before)
        return msgspec.json.encode(
            {
                "session": {
                    "installation_id": self.installation_id,
                    "document_id": self.document_id,
                },
                "document": {
                    "path": self.file.path,
                    "language": "python",
                    "version": moment.version,
                    "prefix_start_line": moment.before.count("\n", 0, start),
                    "prefix": moment.before[start:],
                    "suffix": moment.after[:SUFFIX_CHARS_MAX],
                },
                "region_id": moment.region,
                "snippets": [
                    {"kind": "open_tab", "path": tab.path, "text": tab.text} for tab in self.tabs
                ],
                "mode": "line",
                "trigger": "automatic",
                "deadline_ms": deadline_ms,
                "max_tokens": max_tokens,
            }
        )


def functions_of(sessions: Sequence[TypingSession]) -> int:
    """How many functions the sessions write."""
    return sum(session.functions for session in sessions)


def window_start(before: str) -> int:
    """Where the text that is sent begins: at a line, so that it holds at most the limit."""
    earliest = len(before) - PREFIX_CHARS_MAX
    return 0 if earliest <= 0 else before.find("\n", earliest) + 1 or earliest


def _line_break_near_middle(text: str) -> int:
    breaks = [index for index, character in enumerate(text) if character == "\n"]
    return min(breaks, key=lambda index: abs(index - len(text) // 2))


def typing_sessions(seed: int, functions: int) -> list[TypingSession]:
    """Sessions that write at least `functions` functions into files that the model has not seen."""
    return sessions_in(unseen_files(), seed, functions)


def sessions_in(files: Sequence[UnseenFile], seed: int, functions: int) -> list[TypingSession]:
    """Sessions in these files, each in one of its own.

    Packages take turns, so that a large one does not stand for all. Raises ValueError when there
    are too few files with functions of the wanted size.
    """
    rng = random.Random(seed)
    by_package: dict[str, list[UnseenFile]] = {}
    for file in files:
        by_package.setdefault(file.path.partition("/")[0], []).append(file)
    for of_package in by_package.values():
        rng.shuffle(of_package)
    left = {package: list(of_package) for package, of_package in by_package.items()}
    sessions: list[TypingSession] = []
    while functions_of(sessions) < functions:
        packages = sorted(package for package, of_package in left.items() if of_package)
        if not packages:
            raise ValueError(
                f"{functions} functions are wanted, the packages that the model has not seen give "
                f"{functions_of(sessions)}; ask for fewer"
            )
        for package in packages:
            session = _next_session(left[package], by_package[package], rng)
            sessions += [] if session is None else [session]
    return sessions[: -(-functions // FUNCTIONS_PER_DOCUMENT)]


def _next_session(
    left: list[UnseenFile], package: Sequence[UnseenFile], rng: random.Random
) -> TypingSession | None:
    """A session in the next file of a package that has room for one; takes files from `left`."""
    while left:
        file = left.pop()
        gaps = gaps_of(file.text, rng)
        others = [each for each in package if each.path != file.path]
        if not gaps or len(others) < TABS:
            continue
        return TypingSession(
            installation_id=str(uuid.UUID(int=rng.getrandbits(128))),
            document_id=str(uuid.UUID(int=rng.getrandbits(128))),
            file=file,
            gaps=gaps,
            tabs=tuple(_tab(each, rng) for each in rng.sample(others, TABS)),
            seed=rng.getrandbits(32),
        )
    return None


def _tab(file: UnseenFile, rng: random.Random) -> UnseenFile:
    """Some lines of another file."""
    lines = file.text.splitlines(keepends=True)
    start = rng.randrange(max(1, len(lines) - TAB_LINES))
    return UnseenFile(file.path, "".join(lines[start : start + TAB_LINES]))


def gaps_of(text: str, rng: random.Random) -> tuple[Gap, ...]:
    """An import and two functions below it to be taken out of a file; empty where it has none."""
    if len(text) < FILE_CHARS_MIN or not text.isascii() or "\r" in text or "\f" in text:
        return ()  # The parser counts columns in bytes and other characters as line breaks.
    try:
        module = ast.parse(text)
    except SyntaxError:
        return ()
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    imports = [
        Gap(starts[node.lineno - 1] - 1, starts[node.lineno] - 1, "module")
        for node in module.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and node.lineno == node.end_lineno
        and node.lineno > 1
    ]
    functions = [
        gap for gap in _functions(module, starts) if imports and gap.start > imports[-1].end
    ]
    if not imports or len(functions) < FUNCTIONS_PER_DOCUMENT:
        return ()
    chosen = sorted(rng.sample(functions, FUNCTIONS_PER_DOCUMENT), key=lambda gap: gap.start)
    return (rng.choice(imports), *chosen)


def _functions(module: ast.Module, starts: Sequence[int]) -> Iterator[Gap]:
    """Functions of the module and of its classes that are of the wanted size."""
    bodies = [module.body, *(node.body for node in module.body if isinstance(node, ast.ClassDef))]
    for node in (node for body in bodies for node in body):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno or node.lineno] - 1
        if lines >= FUNCTION_LINES_MIN and FUNCTION_CHARS_MIN <= end - start <= FUNCTION_CHARS_MAX:
            yield Gap(start, end, node.name)
