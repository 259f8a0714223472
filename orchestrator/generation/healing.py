"""The other half of token healing: matching in the output what was held back from the prompt.

What the model is to write again stands at the start of its output and is taken off before anyone
sees the rest. Where it writes something else, what it writes does not fit behind the cursor: the
sequence is left at once, and the text is generated again from the prompt with nothing held back,
with what is left of the deadline. That prompt differs in its last tokens only, so it is warm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import takewhile

from msgspec.structs import replace

from orchestrator.generation.decoding import TokenDecoder
from orchestrator.generation.generate import Generated, generate
from orchestrator.generation.inference import InferenceClient, InferenceRequest
from orchestrator.generation.stopping import BlockRule
from orchestrator.prompt.engine import PromptEngine
from orchestrator.prompt.parts import FimPrompt


class HealingDecoder(TokenDecoder):
    """A decoder whose text begins after `held`; it ends where the output does not begin with it."""

    def __init__(
        self, token_bytes: Sequence[bytes], control_ids: Collection[int], held: str
    ) -> None:
        super().__init__(token_bytes, control_ids)
        self._awaited = held

    @property
    def mismatched(self) -> bool:
        """Whether what came so far lacks a part of what was held back."""
        return bool(self._awaited)

    def feed(self, token_ids: Iterable[int]) -> str:
        """The characters that these tokens complete, after what was held back."""
        text = super().feed(token_ids)
        if not self._awaited:
            return text
        pairs = zip(text, self._awaited, strict=False)
        matched = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if matched == len(text):
            self._awaited = self._awaited[matched:]
            return ""
        if matched == len(self._awaited):
            self._awaited = ""
            return text[matched:]
        self.ended = True
        return ""


async def generate_healed(
    client: InferenceClient,
    engine: PromptEngine,
    prompt: FimPrompt,
    *,
    unhealed: Callable[[], FimPrompt],
    sequence: Callable[[FimPrompt], InferenceRequest],
    block: Callable[[], BlockRule | None],
) -> Generated:
    """The text after `prompt`'s held end, with at most one more sequence where that is missing.

    The functions make what each sequence needs anew. Raises `InferenceError`.
    """

    async def attempt(prompt: FimPrompt) -> tuple[Generated, HealingDecoder]:
        token_bytes = engine.tokenizer.token_bytes
        decoder = HealingDecoder(token_bytes, engine.control_ids, prompt.held)
        return await generate(client, sequence(prompt), decoder, block()), decoder

    generated, decoder = await attempt(prompt)
    if not decoder.mismatched:
        return generated
    again, _ = await attempt(unhealed())
    tokens = generated.completion_tokens + again.completion_tokens
    return replace(again, completion_tokens=tokens)
