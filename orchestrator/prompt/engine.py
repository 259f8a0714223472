"""One served engine as the prompt stage needs it: manifest, tokenizer, recipe, budget."""

from __future__ import annotations

from pathlib import Path

from orchestrator.prompt.compose import compose
from orchestrator.prompt.engine_manifest import (
    EngineManifest,
    read_manifest,
    read_tokenizer_file,
)
from orchestrator.prompt.parts import FimPrompt, PromptParts
from orchestrator.prompt.recipe import PromptRecipe
from orchestrator.prompt.segments import SegmentTable
from orchestrator.prompt.tokenizer import TextTokenizer

_ANSWER_TOKENS_MAX = 256
_ANSWER_CONTEXT_SHARE = 8
"""Room kept for the answer: the longest one, but at most an eighth of a small context. It is the
same for lines and blocks, so that both shapes of one session share one prefix."""


class PromptEngine:
    """Composes prompts for one engine."""

    def __init__(
        self,
        manifest: EngineManifest,
        tokenizer: TextTokenizer,
        recipe: PromptRecipe,
        segments: SegmentTable,
    ) -> None:
        self.manifest = manifest
        self.tokenizer = tokenizer
        self.recipe = recipe
        self.control_ids = frozenset(manifest.control_ids) | frozenset(manifest.end_ids)
        self._segments = segments
        self._usable_tokens = manifest.context_tokens - manifest.reserved_salt_tokens
        answer = min(_ANSWER_TOKENS_MAX, manifest.context_tokens // _ANSWER_CONTEXT_SHARE)
        self.budget_tokens = min(recipe.token_budget, self._usable_tokens - answer)

    def compose(self, parts: PromptParts, partition: bytes) -> FimPrompt:
        """The prompt for `parts`; `partition` is the request's cache salt."""
        encode = self.tokenizer.encode
        return compose(
            parts,
            recipe=self.recipe,
            template=self.manifest.fim,
            budget_tokens=self.budget_tokens,
            style=self.tokenizer.cut_style,
            encode=self._segments.encoder(encode, partition),
            encode_tail=encode,
        )

    def room_for_answer(self, prompt: FimPrompt) -> int:
        """Tokens that may follow `prompt` in the engine's context; at least 1."""
        return self._usable_tokens - len(prompt.token_ids)


def load_engine(engine_dir: Path, recipe: PromptRecipe, segments: SegmentTable) -> PromptEngine:
    """The engine in a folder; raises `EngineFolderError` saying what is wrong with it."""
    manifest = read_manifest(engine_dir)
    tokenizer = TextTokenizer(read_tokenizer_file(engine_dir, manifest), manifest)
    return PromptEngine(manifest, tokenizer, recipe, segments)
