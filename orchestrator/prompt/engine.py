"""One served engine as the prompt stage needs it: manifest, tokenizer, recipe, budget."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from orchestrator.prompt.compose import compose
from orchestrator.prompt.engine_manifest import (
    EngineFolderError,
    EngineManifest,
    read_manifest,
    read_tokenizer_file,
)
from orchestrator.prompt.healing import TokenHealing
from orchestrator.prompt.history import Continuity, PromptHistory
from orchestrator.prompt.parts import FimPrompt, PromptParts
from orchestrator.prompt.recipe import PromptRecipe, layout_of
from orchestrator.prompt.segments import SegmentTable
from orchestrator.prompt.tokenizer import TextTokenizer

_ANSWER_TOKENS_MAX = 256
_ANSWER_CONTEXT_SHARE = 8
"""Room kept for the answer: the longest one, but at most an eighth of a small context. It is the
same for lines and blocks, so that both shapes of one session share one prefix."""


class PromptEngine:
    """Composes prompts for one engine, and counts what follows from them."""

    def __init__(
        self,
        manifest: EngineManifest,
        tokenizer: TextTokenizer,
        recipe: PromptRecipe,
        segments: SegmentTable,
    ) -> None:
        """Raises `EngineFolderError` where the recipe cannot be rendered for the engine."""
        unfit = recipe.unfit_for(manifest.fim)
        if unfit:
            raise EngineFolderError(f"engine {manifest.engine_digest}: {unfit}; choose another one")
        self.manifest = manifest
        self.tokenizer = tokenizer
        self.recipe = recipe
        self.control_ids = frozenset(manifest.control_ids) | frozenset(manifest.end_ids)
        self._segments = segments
        self._history = PromptHistory()
        self._healing = TokenHealing(
            recipe.token_healing, tokenizer.joins, tokenizer.encode, tokenizer.token_bytes
        )
        self._usable_tokens = manifest.context_tokens - manifest.reserved_salt_tokens
        answer = min(_ANSWER_TOKENS_MAX, manifest.context_tokens // _ANSWER_CONTEXT_SHARE)
        self.budget_tokens = min(recipe.token_budget, self._usable_tokens - answer)
        self._layout = layout_of(recipe, manifest.fim, self.budget_tokens)

    def compose(self, parts: PromptParts, partition: bytes, *, heal: bool = True) -> FimPrompt:
        """The prompt for `parts`; `partition` is the request's cache salt.

        With `heal` the end of the prefix may be held back, as the recipe says.
        """
        held = self._healing.held(parts.prefix) if heal else ""
        if held:
            parts = replace(parts, prefix=parts.prefix[: -len(held)])
        encode, segments = self.tokenizer.encode, self._segments.of(partition)
        prompt = compose(
            parts,
            layout=self._layout,
            style=self.tokenizer.cut_style,
            encode=segments.encoder(encode),
            encode_tail=encode,
            remember=segments.remember,
        )
        return replace(prompt, held=held) if held else prompt

    def compare(self, session_key: str, region_id: str, prompt: FimPrompt) -> Continuity:
        """What `prompt` shares with the previous one of its session."""
        return self._history.compare(session_key, region_id, prompt)

    def room_for_answer(self, prompt: FimPrompt) -> int:
        """Tokens that may follow `prompt` in the engine's context; at least 1."""
        return self._usable_tokens - len(prompt.token_ids)


def load_engine(engine_dir: Path, recipe: PromptRecipe, segments: SegmentTable) -> PromptEngine:
    """The engine in a folder; raises `EngineFolderError` saying what is wrong with it."""
    manifest = read_manifest(engine_dir)
    tokenizer = TextTokenizer(read_tokenizer_file(engine_dir, manifest), manifest)
    return PromptEngine(manifest, tokenizer, recipe, segments)
