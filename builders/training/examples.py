"""Turns files into fill-in-the-middle examples: pure functions of (files, mix, Random).

An example is a list of pieces, special tokens and text, so that text which happens to spell a
special token stays text. Bavarian et al. 2022, "Efficient Training of Language Models to Fill in
the Middle", for the two orders; the mix of middles is the card's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Literal

from builders.training.corpus import SourceFile
from builders.training.recipe import ExampleMix

Special = Literal["end", "prefix", "middle", "suffix", "file"]


@dataclass(frozen=True)
class Marker:
    """A special token in an example."""

    special: Special


Piece = str | Marker
END, PREFIX, MIDDLE = Marker("end"), Marker("prefix"), Marker("middle")
SUFFIX, FILE = Marker("suffix"), Marker("file")


@dataclass(frozen=True)
class Span:
    """Where the middle starts and ends in the window, in characters."""

    start: int
    end: int


class FileSampler:
    """Draws files in proportion to their size, and companions from the same package."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self._files = files
        self._cumulated = list(accumulate(len(file.text) for file in files))
        self._by_package: dict[str, list[SourceFile]] = {}
        for file in files:
            self._by_package.setdefault(file.package, []).append(file)

    def file(self, random: Random) -> SourceFile:
        """A file, drawn in proportion to its size."""
        return random.choices(self._files, cum_weights=self._cumulated)[0]

    def companion(self, file: SourceFile, random: Random) -> SourceFile | None:
        """Another file of the same package, or None where there is none."""
        other = random.choice(self._by_package[file.package])
        return None if other is file else other


def window_of(text: str, size: int, random: Random) -> str:
    """About `size` characters of the text from the start of a line."""
    start = random.randrange(max(1, len(text) - size // 2))
    start = text.rfind("\n", 0, start) + 1
    return text[start : start + size]


def line_spans(window: str) -> list[Span]:
    """The lines of a window that hold code, without their line ends."""
    spans, start = [], 0
    for line in window.split("\n"):
        if line.strip():
            spans.append(Span(start, start + len(line)))
        start += len(line) + 1
    return spans


def indentation(line: str) -> int:
    """Leading white space, in characters."""
    return len(line) - len(line.lstrip())


def rest_of_line(window: str, mix: ExampleMix, random: Random) -> Span:
    """From the first code character, or from anywhere later in the line, to the line's end."""
    line = random.choice(line_spans(window))
    first = line.start + indentation(window[line.start : line.end])
    if random.random() >= mix.line_from_indentation_share:
        first = random.randrange(first, line.end)
    return Span(first, line.end)


def block_of_lines(window: str, mix: ExampleMix, random: Random) -> Span:
    """Whole lines from one on, none of them less indented than the first."""
    lines = line_spans(window)
    index = random.randrange(len(lines))
    depth = indentation(window[lines[index].start : lines[index].end])
    wanted = random.randint(1, mix.block_lines_max)
    last = index
    for line in lines[index + 1 : index + wanted]:
        if indentation(window[line.start : line.end]) < depth:
            break
        last += 1
    return Span(lines[index].start + depth, lines[last].end)


def random_span(window: str, mix: ExampleMix, random: Random) -> Span:
    """A span that ignores the code's structure."""
    start = random.randrange(len(window))
    return Span(start, min(len(window), start + random.randint(1, mix.span_max)))


def middle_of(window: str, mix: ExampleMix, random: Random) -> Span:
    """Choose what is left out, by the mix."""
    kind = random.random()
    if kind < mix.line_share:
        return rest_of_line(window, mix, random)
    if kind < mix.line_share + mix.block_share:
        return block_of_lines(window, mix, random)
    return random_span(window, mix, random)


def file_header(path: str) -> list[Piece]:
    """The marker and the path that precede every file and snippet."""
    return [FILE, path + "\n"]


def infilling_prompt(path: str, prefix: str, suffix: str) -> list[Piece]:
    """The suffix-first prompt that the product renders."""
    return [*file_header(path), SUFFIX, suffix, PREFIX, prefix, MIDDLE]


def snippets(
    file: SourceFile, sampler: FileSampler, mix: ExampleMix, random: Random
) -> list[Piece]:
    """No, one or two pieces of other files of the same package, each with its path."""
    pieces: list[Piece] = []
    if random.random() >= mix.snippet_share:
        return pieces
    for _ in range(random.randint(1, mix.snippets_max)):
        other = sampler.companion(file, random)
        if other is not None:
            size = random.randint(mix.snippet_min, mix.snippet_max)
            text = window_of(other.text, size, random)
            pieces += [*file_header(other.path), text + "\n"]
    return pieces


def example(sampler: FileSampler, mix: ExampleMix, random: Random) -> list[Piece]:
    """One example, from its first marker to its end marker."""
    file = sampler.file(random)
    window = window_of(file.text, random.randint(mix.window_min, mix.window_max), random)
    context = snippets(file, sampler, mix, random)
    if not window.strip() or random.random() < mix.plain_share:
        return [*context, *file_header(file.path), window, END]
    span = middle_of(window, mix, random)
    prefix, middle = window[: span.start], window[span.start : span.end]
    suffix = window[span.end :][: random.choice(mix.suffix_lengths)]
    if random.random() < mix.suffix_first_share:
        prompt = infilling_prompt(file.path, prefix, suffix)
    else:
        prompt = [*file_header(file.path), PREFIX, prefix, SUFFIX, suffix, MIDDLE]
    return [*context, *prompt, middle, END]
