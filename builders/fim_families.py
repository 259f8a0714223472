"""The fill-in-the-middle markers of published models, and the order that each was trained with.

A marker set alone does not fix the order: models that share StarCoder's markers differ. So the
order is looked up by marker set and by what the checkpoint calls itself; the first row that fits
decides, and `--fim-family` or a `warmline.json` beside the checkpoint overrides it.

Sources: the model cards of Qwen2.5-Coder, StarCoder, Granite Code, Mellum, Code Llama,
DeepSeek-Coder and Codestral.
"""

from dataclasses import dataclass
from typing import Literal

Order = Literal["suffix_first", "prefix_first"]
ORDERS: tuple[Order, ...] = ("suffix_first", "prefix_first")


@dataclass(frozen=True)
class MarkerSet:
    """The texts of one family's markers; where a tuple has several, the first one found counts.

    `middle` is empty where the prompt ends with the part that the model continues.
    `needs_begin`: the family's prompts start with its begin-of-text token.
    """

    name: str
    prefix: str
    suffix: str
    middle: str | None
    pad: tuple[str, ...] = ()
    file_separator: tuple[str, ...] = ()
    repository_name: tuple[str, ...] = ()
    needs_begin: bool = False

    @property
    def required(self) -> tuple[str, ...]:
        """The markers without which no prompt can be written."""
        return tuple(text for text in (self.prefix, self.suffix, self.middle) if text)


MARKER_SETS = (
    MarkerSet(
        "qwen",
        prefix="<|fim_prefix|>",
        suffix="<|fim_suffix|>",
        middle="<|fim_middle|>",
        pad=("<|fim_pad|>",),
        file_separator=("<|file_sep|>",),
        repository_name=("<|repo_name|>",),
    ),
    MarkerSet(
        "starcoder",
        prefix="<fim_prefix>",
        suffix="<fim_suffix>",
        middle="<fim_middle>",
        pad=("<fim_pad>",),
        file_separator=("<file_sep>", "<filename>"),
        repository_name=("<repo_name>", "<reponame>"),
    ),
    MarkerSet(
        "code_llama",
        prefix="\u2581<PRE>",
        suffix="\u2581<SUF>",
        middle="\u2581<MID>",
        needs_begin=True,
    ),
    MarkerSet(
        "deepseek_coder",
        prefix="<\uff5cfim\u2581begin\uff5c>",
        suffix="<\uff5cfim\u2581hole\uff5c>",
        middle="<\uff5cfim\u2581end\uff5c>",
        needs_begin=True,
    ),
    MarkerSet(
        "codestral",
        prefix="[PREFIX]",
        suffix="[SUFFIX]",
        middle=None,
        needs_begin=True,
    ),
)


@dataclass(frozen=True)
class OrderRule:
    """`markers` and a word of the checkpoint's self-description decide the prompt order."""

    markers: str
    described_as: str
    order: Order


ORDER_RULES = (
    OrderRule("starcoder", "mellum", "suffix_first"),
    OrderRule("starcoder", "", "prefix_first"),
    OrderRule("qwen", "", "prefix_first"),
    OrderRule("code_llama", "", "prefix_first"),
    OrderRule("deepseek_coder", "", "prefix_first"),
    OrderRule("codestral", "", "suffix_first"),
    # Markers named by GGUF keys only: llama.cpp's own infill default.
    OrderRule("declared", "", "prefix_first"),
)

# Tokens of known models that end a text or a turn, beside those that the checkpoint declares.
END_TEXTS = (
    "<|endoftext|>",
    "<|im_end|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|EOT|>",
    "<EOT>",
    "\u2581<EOT>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "</s>",
)
