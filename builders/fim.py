"""Finds a tokenizer's fill-in-the-middle template, its end tokens and its control tokens.

A pure function of the vocabulary, what the checkpoint declares, and the user's choice.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gguf import TokenType

from builders.checkpoints.checkpoint import DeclaredTokens
from builders.fim_families import (
    END_TEXTS,
    MARKER_SETS,
    ORDER_RULES,
    ORDERS,
    MarkerSet,
    Order,
)
from builders.refusals import BuildRefusedError
from builders.vocabulary.vocabulary import Vocabulary

# Added tokens that look like this are markers even where the tokenizer does not say "special".
MARKER_SHAPE = re.compile(r"<([|\uff5c]).*\1>")


@dataclass(frozen=True)
class FimTemplate:
    """Order and token ids of the prompt parts; None where the family has no such token.

    `begin_id` is set only for families whose prompts start with it.
    """

    family: Order
    prefix_id: int
    suffix_id: int
    middle_id: int | None
    pad_id: int | None = None
    file_separator_id: int | None = None
    repository_name_id: int | None = None
    begin_id: int | None = None

    @property
    def marker_ids(self) -> frozenset[int]:
        """Every id that the template names; none of them may appear in a completion."""
        ids = (
            self.prefix_id,
            self.suffix_id,
            self.middle_id,
            self.pad_id,
            self.file_separator_id,
            self.repository_name_id,
            self.begin_id,
        )
        return frozenset(token_id for token_id in ids if token_id is not None)


def find_template(
    vocabulary: Vocabulary,
    declared: DeclaredTokens,
    self_description: str,
    chosen_order: Order | None,
) -> FimTemplate:
    """The template; raises `BuildRefusedError` that says which markers are missing."""
    found = [m for m in MARKER_SETS if all(t in vocabulary.added_ids for t in m.required)]
    if found:
        template = _from_markers(found[0], vocabulary, declared)
        markers = found[0].name
    elif {"pre", "suf", "mid"} <= declared.fim.keys():
        template, markers = _from_declaration(declared), "declared"
    else:
        raise _nothing_usable(vocabulary)
    order = chosen_order or _order(markers, self_description)
    return _with_order(template, order)


def _order(markers: str, self_description: str) -> Order:
    return next(
        rule.order
        for rule in ORDER_RULES
        if rule.markers == markers and rule.described_as in self_description
    )


def _from_markers(
    markers: MarkerSet, vocabulary: Vocabulary, declared: DeclaredTokens
) -> FimTemplate:
    ids = vocabulary.added_ids

    def first(texts: tuple[str, ...]) -> int | None:
        return next((ids[text] for text in texts if text in ids), None)

    if markers.needs_begin and declared.begin_id is None:
        raise BuildRefusedError(
            f"The {markers.name} prompt starts with a begin-of-text token, and none is declared.",
            "bos_token_id in config.json, or tokenizer.ggml.bos_token_id in a GGUF file.",
            "add it to the checkpoint's config.json.",
        )
    return FimTemplate(
        family="prefix_first",
        prefix_id=ids[markers.prefix],
        suffix_id=ids[markers.suffix],
        middle_id=ids[markers.middle] if markers.middle else None,
        pad_id=first(markers.pad),
        file_separator_id=first(markers.file_separator),
        repository_name_id=first(markers.repository_name),
        begin_id=declared.begin_id if markers.needs_begin else None,
    )


def _from_declaration(declared: DeclaredTokens) -> FimTemplate:
    fim = declared.fim
    return FimTemplate(
        family="prefix_first",
        prefix_id=fim["pre"],
        suffix_id=fim["suf"],
        middle_id=fim["mid"],
        pad_id=fim.get("pad"),
        file_separator_id=fim.get("sep"),
        repository_name_id=fim.get("rep"),
    )


def _with_order(template: FimTemplate, order: Order) -> FimTemplate:
    if order == "prefix_first" and template.middle_id is None:
        raise BuildRefusedError(
            "The template has no middle marker and the order prefix_first was asked for.",
            "suffix_first for a model without a middle marker.",
            "leave --fim-family out.",
        )
    return FimTemplate(**{**template.__dict__, "family": order})


def _nothing_usable(vocabulary: Vocabulary) -> BuildRefusedError:
    partly = [
        f"{m.name} (lacks {', '.join(t for t in m.required if t not in vocabulary.added_ids)})"
        for m in MARKER_SETS
        if any(t in vocabulary.added_ids for t in m.required)
    ]
    nearest = f"; it has part of {'; '.join(partly)}" if partly else ""
    return BuildRefusedError(
        f"The tokenizer has no complete set of fill-in-the-middle markers{nearest}.",
        "the markers of "
        + "; ".join(f"{m.name} ({' '.join(m.required)})" for m in MARKER_SETS)
        + f", in the order {' or '.join(ORDERS)}.",
        "choose a checkpoint that was trained for infilling (a base model, not a chat model).",
    )


def end_ids(
    vocabulary: Vocabulary, declared: DeclaredTokens, template: FimTemplate
) -> tuple[int, ...]:
    """Ids that end a completion: the declared end of text first, then the others, ascending.

    Beside the ends of text and of a turn, every marker ends a completion: a model that starts
    another file or another infilling has finished this one.
    """
    known = {vocabulary.added_ids[text] for text in END_TEXTS if text in vocabulary.added_ids}
    ends = dict.fromkeys((*declared.end_ids, *sorted(known | template.marker_ids)))
    _refuse_nameless(vocabulary, ends)
    if not declared.end_ids and not known:
        raise BuildRefusedError(
            "The checkpoint declares no end-of-text token and its tokenizer has no known one.",
            "eos_token_id in config.json, or tokenizer.ggml.eos_token_id in a GGUF file.",
            "add it to the checkpoint's config.json.",
        )
    return tuple(ends)


def _refuse_nameless(vocabulary: Vocabulary, token_ids: Iterable[int]) -> None:
    """An id that the checkpoint declares and the tokenizer has no text for."""
    rows = len(vocabulary.tokens)
    for token_id in token_ids:
        if not 0 <= token_id < rows or vocabulary.kinds[token_id] is TokenType.UNUSED:
            raise BuildRefusedError(
                f"The checkpoint declares the token id {token_id}, which its tokenizer lacks.",
                f"ids of the tokenizer's own {rows - vocabulary.kinds.count(TokenType.UNUSED)} "
                "tokens.",
                "use the tokenizer and the configuration of one and the same model.",
            )


def control_ids(vocabulary: Vocabulary, ends: tuple[int, ...]) -> tuple[int, ...]:
    """Ids that are never shown: special tokens, ends, and whatever looks like a marker."""
    shaped = {i for text, i in vocabulary.added_ids.items() if MARKER_SHAPE.fullmatch(text)}
    return tuple(sorted({*vocabulary.special_ids, *ends, *shaped}))
