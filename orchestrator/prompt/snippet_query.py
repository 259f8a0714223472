r"""The lines that snippets are ranked against: before an anchor that typing does not move. Pure.

Ranking against the lines right before the cursor would choose anew with each keystroke, and each
new choice is a cold prefill, because snippets stand first. So the lines are those before an
*anchor*, which follows from the request alone:

- with a `region_id`, the line after the nearest definition above the cursor's line (a region is
  what the editor calls a function or a class), and from there every `refresh_lines`-th line;
- without one, or where no definition is near, the last boundary at or above the cursor's line:
  every `refresh_lines`-th line of the file, or one chosen by its content (`lines_before`).

All of these lie above the cursor's line, so typing on it changes nothing. Going on for
`refresh_lines` lines moves the anchor: this is the schedule by which a stale choice is refreshed.
"""

from __future__ import annotations

import re

from orchestrator.prompt.lines_before import LinesBefore

_LOOK_BACK_CHARS = 16_384
_DEFINITION_LINES_MAX = 64
"""One further up is not looked for: the search takes up to two microseconds a line, and by then the
schedule has moved the anchor away from the definition anyway."""

_LINE_CHARS_MAX = 512
_QUERY_CHARS_MAX = 4_096

_DEFINITION = re.compile(
    r"[ \t]*(?:[\w.<>\[\]]+[ \t]+){0,4}"
    r"(?:def|class|function|func|fn|fun|impl|struct|enum|interface|trait|module|namespace)\b"
    r"|[ \t]*(?!if\b|for\b|while\b|switch\b|catch\b|else\b|do\b|try\b|with\b|match\b|\})"
    r"[\w<~*&][\w.<>\[\]*& \t:~]*\([^;]*\{\s*$"
)
"""A line that starts a function or a type: by keyword, or `name(...) {` that is no control flow."""


def query_of(
    prefix: str, first_line: int | None, *, in_region: bool, query_lines: int, refresh_lines: int
) -> str:
    """At most `query_lines` lines before the anchor; with `refresh_lines` 0 before the cursor."""
    end = _anchor(prefix, first_line, in_region, refresh_lines) if refresh_lines else len(prefix)
    start = end
    for _ in range(query_lines):
        if start == 0:
            break
        start = prefix.rfind("\n", 0, start - 1) + 1
    return prefix[max(start, end - _QUERY_CHARS_MAX) : end]


def _anchor(prefix: str, first_line: int | None, in_region: bool, refresh_lines: int) -> int:
    lines = LinesBefore(prefix, first_line, refresh_lines.bit_length() - 1)
    line_start = prefix.rfind("\n") + 1
    if in_region:
        body = _after_definition(lines, line_start)
        if body is not None:
            return _scheduled(prefix, body, line_start, refresh_lines)
    if first_line is not None and lines.number_at(line_start) % refresh_lines == 0:
        return line_start
    return next(lines.coarse_starts(line_start, max(0, line_start - _LOOK_BACK_CHARS)), 0)


def _after_definition(lines: LinesBefore, line_start: int) -> int | None:
    """The start of the line after the nearest definition above; None where none is near."""
    lowest = max(0, line_start - _LOOK_BACK_CHARS)
    for _ in range(_DEFINITION_LINES_MAX):
        if line_start <= lowest:
            return None
        end, line_start = line_start, lines.start_before(line_start)
        if _DEFINITION.match(lines.text, line_start, min(end, line_start + _LINE_CHARS_MAX)):
            return end
    return None


def _scheduled(prefix: str, body: int, line_start: int, refresh_lines: int) -> int:
    """The last line at or above the cursor's that is a multiple of `refresh_lines` after `body`."""
    whole = prefix.count("\n", body, line_start) // refresh_lines * refresh_lines
    for _ in range(whole):
        body = prefix.index("\n", body) + 1
    return body
