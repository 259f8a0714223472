"""Decides everything about an engine before anything is written.

A pure function of the request, the checkpoint as read, and its card.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.checkpoint_card import CheckpointCard
from builders.checkpoints.checkpoint import Checkpoint
from builders.fim import control_ids, end_ids, find_template
from builders.fim_families import Order
from builders.manifest import RESERVED_SALT_TOKENS, EngineDescription
from builders.refusals import BuildRefusedError
from builders.targets import Target
from builders.vocabulary.tokenizer_json import with_special_tokens
from builders.vocabulary.vocabulary import Vocabulary, vocabulary_of

REFERENCE_MODEL = Path(__file__).parent / "reference_model"
# The largest completion is 256 tokens; below this, salt and completion leave no room for a prompt.
CONTEXT_TOKENS_MIN = 512
# A completion prompt is never longer than this, and the KV cache is planned by it. Models with a
# longer context are served up to here unless --context-tokens says otherwise.
CONTEXT_TOKENS_DEFAULT_MAX = 8192


@dataclass(frozen=True)
class BuildRequest:
    """What the user asks for; None means: as the checkpoint says."""

    checkpoint: Path
    output: Path
    target: str = "cpu"
    tokenizer: Path | None = None
    name: str | None = None
    context_tokens: int | None = None
    fim_family: Order | None = None

    @property
    def own_name(self) -> str:
        """The checkpoint's name on disk, for an engine that nobody named."""
        resolved = self.checkpoint.resolve()
        # A folder may be called "Qwen2.5-Coder-0.5B": what follows its last dot is no suffix.
        return resolved.stem if resolved.is_file() else resolved.name

    @property
    def origin(self) -> str:
        """`reference` for the project's own model at its own place, else `local`."""
        own = self.checkpoint.resolve() == REFERENCE_MODEL.resolve()
        return "reference" if own else "local"


@dataclass(frozen=True)
class EnginePlan:
    """What will be written: the manifest's content, the tokenizer, and its vocabulary."""

    description: EngineDescription
    tokenizer_document: dict[str, Any]
    vocabulary: Vocabulary


def plan_engine(
    request: BuildRequest, target: Target, checkpoint: Checkpoint, card: CheckpointCard
) -> EnginePlan:
    """The plan; raises `BuildRefusedError` where the checkpoint cannot become an engine."""
    rows = checkpoint.architecture.vocabulary_size
    published = vocabulary_of(checkpoint.tokenizer_document, rows)
    order = request.fim_family or card.fim_family
    declared, described = checkpoint.declared, checkpoint.self_description
    template = find_template(published, declared, described, order)
    ends = end_ids(published, declared, template)
    controls = control_ids(published, ends)
    document = with_special_tokens(checkpoint.tokenizer_document, controls)
    vocabulary = vocabulary_of(document, rows)
    description = EngineDescription(
        name=request.name or card.name or request.own_name,
        origin=request.origin,
        target=target.name,
        precision=checkpoint.precision,
        architecture=checkpoint.architecture,
        context_tokens=_context_tokens(
            request.context_tokens, checkpoint.architecture.context_tokens
        ),
        fim=template,
        end_ids=ends,
        control_ids=controls,
        newline_ids=vocabulary.newline_ids,
        block_tokens=target.block_tokens,
        tiers=target.tiers,
    )
    return EnginePlan(description, document, vocabulary)


def _context_tokens(asked: int | None, longest: int) -> int:
    chosen = min(longest, CONTEXT_TOKENS_DEFAULT_MAX) if asked is None else asked
    if not CONTEXT_TOKENS_MIN <= chosen <= longest:
        raise BuildRefusedError(
            f"The context would be {chosen} tokens; the model was trained for {longest}.",
            f"{CONTEXT_TOKENS_MIN} (with {RESERVED_SALT_TOKENS} for the salt) to {longest} tokens.",
            "pass a value in this range with --context-tokens, or choose another checkpoint.",
        )
    return chosen
