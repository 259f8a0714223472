"""Rest-of-line infilling on held-out files: how often, and how nearly, the model finds the line.

Greedy decoding of the product's own prompt, stopped at the first line end, with the cut at the
indentation, a third or half of the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from random import Random

import torch

from builders.training.corpus import SourceFile
from builders.training.examples import indentation, infilling_prompt, line_spans
from builders.training.model import GrowingCache, Llama
from builders.training.recipe import EvaluationPlan
from builders.training.tokens import PieceTokenizer

CASE_SEED = 20_26  # the same cases for every model
_CUTS = (0.0, 1 / 3, 1 / 2)
_CODE_CHARACTERS_MIN = 8


@dataclass(frozen=True)
class Case:
    """One cut line: what stands before and after, and what was cut out."""

    path: str
    prefix: str
    suffix: str
    expected: str


@dataclass(frozen=True)
class Infilling:
    """Share of exact matches, and mean similarity (difflib's ratio), of all cases."""

    cases: int
    exact: float
    similarity: float


def cases(files: Sequence[SourceFile], plan: EvaluationPlan) -> list[Case]:
    """The plan's number of cases, the three cuts in turn, on random lines of random files."""
    random = Random(CASE_SEED)
    ordered = sorted(files, key=lambda file: (file.package, file.path))
    return [
        _case(random.choice(ordered), _CUTS[number % len(_CUTS)], plan, random)
        for number in range(plan.infilling_cases)
    ]


def _case(file: SourceFile, cut: float, plan: EvaluationPlan, random: Random) -> Case:
    text = file.text
    spans = [
        span
        for span in line_spans(text)
        if len(text[span.start : span.end].strip()) >= _CODE_CHARACTERS_MIN
    ]
    line = random.choice(spans)
    first = line.start + indentation(text[line.start : line.end])
    cursor = first + int((line.end - first) * cut)
    start = max(0, cursor - plan.prefix_characters)
    if start:
        start = text.find("\n", start, cursor) + 1 or start
    suffix = text[line.end : line.end + plan.suffix_characters]
    return Case(file.path, text[start:cursor], suffix, text[cursor : line.end])


@torch.inference_mode()
def complete(model: Llama, tokenizer: PieceTokenizer, case: Case, tokens_max: int) -> str:
    """The model's greedy line for one case."""
    model.eval()
    end = tokenizer.special_id("end")
    ids = tokenizer.encode(infilling_prompt(case.path, case.prefix, case.suffix))
    room = model.shape.max_position_embeddings - tokens_max
    step = torch.tensor([ids[-room:]])
    caches = [GrowingCache() for _ in model.model.layers]
    written: list[int] = []
    text = ""
    while len(written) < tokens_max:
        best = int(model.logits(model.hidden(step, caches)[:, -1]).argmax())
        if best == end:
            break
        written.append(best)
        text = tokenizer.decode(written)
        if "\n" in text:
            break
        step = torch.tensor([[best]])
    return text.partition("\n")[0]


def similarity(expected: str, actual: str) -> float:
    """difflib's ratio of the two, 0 to 1."""
    return SequenceMatcher(None, expected, actual, autojunk=False).ratio()


def judge(
    model: Llama, tokenizer: PieceTokenizer, all_cases: Sequence[Case], plan: EvaluationPlan
) -> Infilling:
    """Complete every case and compare, white space at the line's end aside."""
    exact, similar = 0, 0.0
    for case in all_cases:
        written = complete(model, tokenizer, case, plan.infilling_tokens_max).rstrip()
        exact += written == case.expected.rstrip()
        similar += similarity(case.expected.rstrip(), written)
    return Infilling(len(all_cases), exact / len(all_cases), similar / len(all_cases))
