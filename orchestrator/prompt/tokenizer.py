"""The served model's tokenizer, made safe for text that people wrote.

The rule that must not break: text never becomes a control token. The `tokenizers` library looks
for added tokens in any text it is given; `encode_special_tokens` turns that off for those marked
`special`, and some models (Qwen2.5-Coder among them) do not mark their FIM markers so. All control
ids are therefore marked on loading, and the result is checked.
"""

from __future__ import annotations

import re
from array import array
from typing import Any

import msgspec
from tokenizers import Tokenizer

from orchestrator.prompt.byte_alphabet import bytes_of_vocabulary
from orchestrator.prompt.engine_manifest import EngineFolderError, EngineManifest
from orchestrator.prompt.healing import probe_joins
from orchestrator.prompt.line_cuts import CutStyle

ID_TYPE = "i"
"""The `array` type code of token ids: 32-bit, as the engine's tensor has them."""

_PROBES = (
    "import a\n\ndef f(x):\n    return x + 1\n",
    "if (a) {\n\tb(c);\n\n\t}\n}\n\n// d\nx = 'y'\n",
    "a:\n  - b\n  - c: 1\r\n\r\n  d\r\n",
)
"""Code as it is written, to see where this tokenizer's pieces can be cut without changing them."""


class TextTokenizer:
    """Text to token ids and back, for one engine. Thread-safe and without state."""

    def __init__(self, tokenizer_json: bytes, manifest: EngineManifest) -> None:
        """Raises `EngineFolderError` for a tokenizer that cannot be used safely."""
        document = _document_of(tokenizer_json)
        added = _mark_controls(document, frozenset(manifest.control_ids))
        self._tokenizer = Tokenizer.from_buffer(msgspec.json.encode(document))
        self._tokenizer.encode_special_tokens = True
        self.token_bytes = self._bytes_by_id(added)
        self._refuse_reachable_controls(manifest)
        self.cut_style = self._cut_style()
        self.joins = probe_joins(self.encode)

    def encode(self, text: str) -> array[int]:
        """Token ids of `text`, none of them a control id. Lone surrogates become U+FFFD."""
        # encode_batch_fast leaves out the offsets, a fifth of the time of encode.
        try:
            ids = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
        except TypeError:  # The library refuses what is not valid Unicode.
            return self.encode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        return array(ID_TYPE, ids)

    def _bytes_by_id(self, added: dict[int, str]) -> tuple[bytes, ...]:
        try:
            return bytes_of_vocabulary(self._tokenizer.get_vocab(with_added_tokens=True), added)
        except ValueError as error:
            raise EngineFolderError(
                f"tokenizer: {error}; only byte-level BPE tokenizers are served"
            ) from error

    def _refuse_reachable_controls(self, manifest: EngineManifest) -> None:
        for control_id in manifest.control_ids:
            spelling = self._tokenizer.id_to_token(control_id)
            if spelling is not None and control_id in self.encode(f"a{spelling}b {spelling}"):
                raise EngineFolderError(
                    f"tokenizer: text can spell control token {control_id}; "
                    "its tokenizer.json must list it under added_tokens"
                )

    def _cut_style(self) -> CutStyle:
        """The style that changes the fewest tokens of the probes; see `line_cuts`."""
        return min(
            CutStyle, key=lambda style: sum(self._cuts_badly(each, style) for each in _PROBES)
        )

    def _cuts_badly(self, text: str, style: CutStyle) -> int:
        """At how many lines of `text` a cut changes its tokens, blank ones left out."""
        whole = self.encode(text)
        starts = [found.end() for found in re.finditer(r"\n(?=[ \t]*\S)", text)]
        cuts = [style.cut_before_line(text, start) for start in starts]
        return sum(self.encode(text[:cut]) + self.encode(text[cut:]) != whole for cut in cuts)


def _document_of(tokenizer_json: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(tokenizer_json)
    except msgspec.DecodeError as error:
        raise EngineFolderError(f"tokenizer: {error}; it must be a tokenizer.json") from error
    if not isinstance(document, dict) or "model" not in document:
        raise EngineFolderError("tokenizer: no `model` in it; it must be a tokenizer.json")
    return document


def _mark_controls(document: dict[str, Any], control_ids: frozenset[int]) -> dict[int, str]:
    """Marks control ids as special in place; all added tokens with their spelling."""
    added = document.get("added_tokens") or []
    for token in added:
        token["special"] = token["special"] or token["id"] in control_ids
    return {token["id"]: token["content"] for token in added}
