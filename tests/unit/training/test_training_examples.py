"""How a file becomes a fill-in-the-middle example, and examples become rows."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.training import examples
from builders.training.corpus import SourceFile
from builders.training.examples import END, FILE, MIDDLE, PREFIX, SUFFIX, FileSampler, Marker
from builders.training.recipe import ExampleMix

MIX = ExampleMix()
CODE = "".join(
    f"class Thing{n}:\n    def method(self, value):\n        if value:\n"
    f"            return value + {n}\n        return None\n\n"
    for n in range(60)
)
FILES = [SourceFile("p", f"p/m{n}.py", f"# {n}\n" + CODE) for n in range(4)]
SAMPLER = FileSampler(FILES)
seeds = st.integers(min_value=0, max_value=2**32)


def own_file(pieces: list[examples.Piece]) -> list[examples.Piece]:
    """The example without the snippets before its file."""
    start = len(pieces) - 1 - pieces[::-1].index(FILE)
    return pieces[start:]


@given(seeds)
def test_prefix_middle_and_suffix_lie_together_in_the_file(seed: int) -> None:
    pieces = own_file(examples.example(SAMPLER, MIX, Random(seed)))
    text = next(file.text for file in FILES if file.path + "\n" == pieces[1])
    assert pieces[-1] == END
    if PREFIX not in pieces:
        assert pieces[2] in text
        return
    prefix = pieces[pieces.index(PREFIX) + 1]
    suffix = pieces[pieces.index(SUFFIX) + 1]
    middle = pieces[pieces.index(MIDDLE) + 1]
    assert isinstance(prefix, str)
    assert isinstance(suffix, str)
    assert isinstance(middle, str)
    assert prefix + middle + suffix in text
    assert len(suffix) in MIX.suffix_lengths or text.endswith(suffix) or len(suffix) <= 900


@given(seeds)
def test_a_window_starts_at_a_line_and_keeps_its_size(seed: int) -> None:
    window = examples.window_of(CODE, 1_500, Random(seed))
    start = CODE.find(window)
    assert start == 0 or CODE[start - 1] == "\n"
    assert len(window) == 1_500 or CODE.endswith(window)


@given(seeds)
def test_the_rest_of_a_line_ends_where_the_line_does(seed: int) -> None:
    span = examples.rest_of_line(CODE, MIX, Random(seed))
    middle = CODE[span.start : span.end]
    assert middle
    assert "\n" not in middle
    assert CODE[span.end] == "\n"


@given(seeds)
def test_a_block_never_holds_a_line_less_indented_than_its_first(seed: int) -> None:
    span = examples.block_of_lines(CODE, MIX, Random(seed))
    first_line = CODE.rfind("\n", 0, span.start) + 1
    depth = span.start - first_line
    lines = [line for line in CODE[first_line : span.end].split("\n") if line.strip()]
    assert all(examples.indentation(line) >= depth for line in lines)
    assert 1 <= len(lines) <= MIX.block_lines_max


@given(seeds)
def test_a_random_span_is_within_its_limit(seed: int) -> None:
    span = examples.random_span(CODE, MIX, Random(seed))
    assert 1 <= span.end - span.start <= MIX.span_max


def test_half_of_the_line_cuts_are_at_the_first_code_character() -> None:
    text = "        value = compute(one, two, three)\n"
    starts = [examples.rest_of_line(text, MIX, Random(seed)).start for seed in range(2_000)]
    assert 0.47 < sum(start == 8 for start in starts) / len(starts) < 0.57
    assert min(starts) == 8


def test_the_mix_is_the_cards() -> None:
    random = Random(5)
    made = [own_file(examples.example(SAMPLER, MIX, random)) for _ in range(4_000)]
    orders = Counter(
        "plain" if PREFIX not in one else "suffix" if one[2] == SUFFIX else "prefix" for one in made
    )
    assert orders["plain"] / 4_000 == pytest.approx(0.12, abs=0.02)
    assert orders["suffix"] / (4_000 - orders["plain"]) == pytest.approx(0.87, abs=0.02)


def test_snippets_come_from_other_files_of_the_package_in_three_of_ten_examples() -> None:
    random = Random(6)
    with_snippets = 0
    for _ in range(2_000):
        pieces = examples.example(SAMPLER, MIX, random)
        context = pieces[: len(pieces) - len(own_file(pieces))]
        with_snippets += bool(context)
        assert own_file(pieces)[1] not in context
        assert sum(piece == FILE for piece in context) <= MIX.snippets_max
    # A companion may be drawn that is the file itself, and is then left out.
    assert 0.22 < with_snippets / 2_000 < 0.31


def test_a_package_of_one_file_has_no_snippets() -> None:
    alone = FileSampler([SourceFile("q", "q/a.py", CODE)])
    random = Random(7)
    assert all(examples.example(alone, MIX, random).count(Marker("file")) == 1 for _ in range(200))


def test_large_files_are_drawn_more_often() -> None:
    sampler = FileSampler(
        [SourceFile("p", "large", "x" * 900), SourceFile("p", "small", "x" * 100)]
    )
    random = Random(8)
    drawn = Counter(sampler.file(random).path for _ in range(2_000))
    assert drawn["large"] / 2_000 == pytest.approx(0.9, abs=0.03)
