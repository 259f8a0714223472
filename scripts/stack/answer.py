"""From a place in a file to a request, and from an answer to what a person sees. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.stack.errors import StackError

PREFIX_CHARACTERS_MAX = 64 * 1024
SUFFIX_CHARACTERS_MAX = 16 * 1024
"""What is sent around the cursor: more than any prompt holds, less than the limit of 1 MiB."""

GREY, PLAIN = "\x1b[90m", "\x1b[0m"

_LANGUAGES = {
    "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp", "hpp": "cpp", "cs": "csharp", "go": "go",
    "java": "java", "js": "javascript", "kt": "kotlin", "lua": "lua", "php": "php", "py": "python",
    "rb": "ruby", "rs": "rust", "sh": "shellscript", "sql": "sql", "swift": "swift",
    "ts": "typescript", "tsx": "typescriptreact", "yaml": "yaml", "yml": "yaml",
}  # fmt: skip
"""Language identifiers by file suffix, as editors name them (LSP 3.18, TextDocumentItem)."""

_WHY = {
    "empty": "the model ended the line at once",
    "refused": "the stack refused to spend engine time on it",
    "filtered": "the model produced text, and a rule dropped it",
    "excluded": "policy keeps this path from the model",
    "client_refused": "this client's version is not served",
    "expired": "generation finished after the deadline",
    "failed": "the engine failed (scripts/logs says where)",
}


@dataclass(frozen=True)
class Place:
    """A cursor: line and column count from 1; column 1 is before the first character."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Cut:
    """A document cut at the cursor."""

    prefix: str
    suffix: str
    prefix_start_line: int  # line of the file, from 0, at which the prefix begins

    @property
    def line_before(self) -> str:
        """The cursor's line up to the cursor."""
        return self.prefix.rpartition("\n")[2]

    @property
    def line_after(self) -> str:
        """The cursor's line from the cursor on."""
        return self.suffix.partition("\n")[0].rstrip("\r")


def parse_place(text: str) -> Place:
    """Parse FILE:LINE:COLUMN; the file's name may hold colons."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not all(_is_count(part) for part in parts[1:]):
        raise StackError(
            f"{text!r} is not FILE:LINE:COLUMN.",
            "Name a line and a column, counted from 1: src/app.py:12:5.",
        )
    return Place(parts[0], int(parts[1]), int(parts[2]))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= 2**31


def cut(text: str, place: Place) -> Cut:
    """Cut a file's text at the cursor. Raises `StackError` when it lies outside."""
    lines = text.split("\n")
    if place.line > len(lines):
        raise StackError(
            f"{place.file} has {len(lines)} lines; line {place.line} was asked for.",
            f"Choose a line from 1 to {len(lines)}.",
        )
    length = len(lines[place.line - 1].rstrip("\r"))
    if place.column > length + 1:
        raise StackError(
            f"Line {place.line} of {place.file} has {length} characters; column {place.column} "
            "was asked for.",
            f"Choose a column from 1 to {length + 1}, which is the end of the line.",
        )
    at = sum(len(line) + 1 for line in lines[: place.line - 1]) + place.column - 1
    start = _prefix_start(text, at)
    return Cut(
        prefix=text[start:at],
        suffix=text[at : at + SUFFIX_CHARACTERS_MAX],
        prefix_start_line=text.count("\n", 0, start),
    )


def _prefix_start(text: str, at: int) -> int:
    if at <= PREFIX_CHARACTERS_MAX:
        return 0
    earliest = at - PREFIX_CHARACTERS_MAX
    line_start = text.find("\n", earliest, at) + 1
    return line_start or earliest


def request_body(
    place: Place, document: Cut, mode: str, deadline_ms: int | None, installation: str
) -> bytes:
    """Return the JSON of `POST /v1/inline-completions`."""
    suffix = place.file.rpartition(".")[2].lower()
    body: dict[str, Any] = {
        "session": {
            "installation_id": installation,
            "document_id": hashlib.sha256(place.file.encode()).hexdigest()[:32],
        },
        "document": {
            "path": place.file.rpartition("/")[2],
            "language": _LANGUAGES.get(suffix, "plaintext"),
            "prefix_start_line": document.prefix_start_line,
            "prefix": document.prefix,
            "suffix": document.suffix,
        },
        "mode": mode,
        "trigger": "invoked",
    }
    if deadline_ms is not None:
        body["deadline_ms"] = deadline_ms
    return json.dumps(body, ensure_ascii=False).encode()


def show(document: Cut, answer: Mapping[str, Any], coloured: bool) -> str:
    """Return the line with the suggestion in grey, and under it what it cost.

    Without colour the suggestion is repeated on a row of its own, as a JSON string.
    """
    suggestion = str(answer.get("suggestion", ""))
    grey, plain = (GREY, PLAIN) if coloured else ("", "")
    rows = []
    if suggestion:
        inserted = suggestion.replace("\n", f"{plain}\n{grey}")
        rows.append(f"{document.line_before}{grey}{inserted}{plain}{document.line_after}")
        if not coloured:
            rows += ["", f"suggestion  {json.dumps(suggestion, ensure_ascii=False)}"]
    else:
        rows.append(f"{document.line_before}{document.line_after}")
        rows += ["", f"nothing suggested: {_why(answer)}"]
    return "\n".join([*rows, *([""] if coloured and suggestion else []), *_cost(answer)])


def _why(answer: Mapping[str, Any]) -> str:
    outcome = str(answer.get("outcome", "unknown"))
    reason = answer.get("reason")
    explained = f", {_WHY[outcome]}" if outcome in _WHY else ""
    return f"{outcome}{f' ({reason})' if reason else ''}{explained}"


def _cost(answer: Mapping[str, Any]) -> list[str]:
    usage, timings = answer.get("usage") or {}, answer.get("timings_ms") or {}
    prompt, cached = usage.get("prompt_tokens") or 0, usage.get("cached_tokens")
    stages = [
        f"{name} {value:.1f}"
        for name, value in timings.items()
        if name != "total" and value is not None
    ]
    # The engine says at its end what it reused: a stream that ended earlier has no such figure.
    known = "cached share unknown"
    if cached is not None:
        known = f"{cached} cached, {prompt - cached} computed"
    completion = usage.get("completion_tokens") or 0
    return [
        f"model       {answer.get('model') or 'none'}, {answer.get('mode')} mode",
        f"tokens      prompt {prompt}: {known}; completion {completion}",
        f"time (ms)   total {timings.get('total') or 0.0:.1f}: {', '.join(stages)}",
    ]
