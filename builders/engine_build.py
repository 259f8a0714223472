"""One build: checkpoint in, engine folder out. The order of the steps is written once, here."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from builders.checkpoint_card import card_path, read_card
from builders.checkpoints.checkpoint import Checkpoint
from builders.checkpoints.gguf_file import read_gguf
from builders.checkpoints.huggingface import read_huggingface, source_files
from builders.engine_folder import BUILD_FILE, finished_engine, locked, staged
from builders.fim import control_ids, end_ids, find_template
from builders.fim_families import Order
from builders.gguf_writer import stored_bytes
from builders.manifest import (
    MANIFEST_FILE,
    RESERVED_SALT_TOKENS,
    EngineDescription,
    engine_file,
    manifest_bytes,
    manifest_of,
)
from builders.precision import as_engine_tensor
from builders.refusals import BuildRefusedError
from builders.targets import Target, target_named
from builders.vocabulary.pre_tokenizers import name_of
from builders.vocabulary.tokenizer_json import tokenizer_bytes, with_special_tokens
from builders.vocabulary.vocabulary import Vocabulary, vocabulary_of

BUILDER_VERSION = "1"
TOKENIZER_FILE = "tokenizer.json"
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


@dataclass(frozen=True)
class BuildResult:
    """The manifest of the engine now in place, and whether this build had to make it."""

    manifest: dict[str, Any]
    built: bool


def build(request: BuildRequest, announce: Callable[[str], None] = lambda _: None) -> BuildResult:
    """Build the engine, or find that it is there already; raises `BuildRefusedError`.

    `announce` is told, in a few words, what is being done.
    """
    target = target_named(request.target)
    announce("reading the checkpoint")
    input_digest = _input_digest(request)
    with locked(request.output):
        present = finished_engine(request.output, input_digest)
        if present is not None:
            return BuildResult(present, built=False)
        checkpoint = _read(request)
        description, document, vocabulary = _describe(request, target, checkpoint)
        with staged(request.output, _expected_bytes(checkpoint)) as folder:
            announce("writing the engine")
            _write(folder, target, checkpoint, document, vocabulary, description)
            manifest = _write_manifest(folder, target, description)
            (folder / BUILD_FILE).write_bytes(manifest_bytes({"input_digest": input_digest}))
    return BuildResult(manifest, built=True)


def _read(request: BuildRequest) -> Checkpoint:
    reader = read_huggingface if request.checkpoint.is_dir() else read_gguf
    checkpoint = reader(request.checkpoint, request.tokenizer)
    return replace(checkpoint, tensors=tuple(map(as_engine_tensor, checkpoint.tensors)))


def _describe(
    request: BuildRequest, target: Target, checkpoint: Checkpoint
) -> tuple[EngineDescription, dict[str, Any], Vocabulary]:
    """Everything that the manifest says, the tokenizer document, and its vocabulary."""
    card = read_card(request.checkpoint)
    rows = checkpoint.architecture.vocabulary_size
    published = vocabulary_of(checkpoint.tokenizer_document, rows)
    template = find_template(
        published,
        checkpoint.declared,
        checkpoint.self_description,
        request.fim_family or card.fim_family,
    )
    ends = end_ids(published, checkpoint.declared, template)
    controls = control_ids(published, ends)
    document = with_special_tokens(checkpoint.tokenizer_document, controls)
    vocabulary = vocabulary_of(document, rows)
    description = EngineDescription(
        name=request.name or card.name or request.checkpoint.resolve().stem,
        origin="reference" if _is_reference(request) else "local",
        target=target.name,
        precision=checkpoint.precision,
        architecture=checkpoint.architecture,
        context_tokens=_context_tokens(request, checkpoint),
        fim=template,
        end_ids=ends,
        control_ids=controls,
        newline_ids=vocabulary.newline_ids,
        block_tokens=target.block_tokens,
        tiers=target.tiers,
    )
    return description, document, vocabulary


def _is_reference(request: BuildRequest) -> bool:
    return request.checkpoint.resolve() == REFERENCE_MODEL.resolve()


def _context_tokens(request: BuildRequest, checkpoint: Checkpoint) -> int:
    longest = checkpoint.architecture.context_tokens
    chosen = request.context_tokens or min(longest, CONTEXT_TOKENS_DEFAULT_MAX)
    if not CONTEXT_TOKENS_MIN <= chosen <= longest:
        raise BuildRefusedError(
            f"The context would be {chosen} tokens; the model was trained for {longest}.",
            f"{CONTEXT_TOKENS_MIN} (with {RESERVED_SALT_TOKENS} for the salt) to {longest} tokens.",
            "pass a value in this range with --context-tokens, or choose another checkpoint.",
        )
    return chosen


def _write(
    folder: Path,
    target: Target,
    checkpoint: Checkpoint,
    document: dict[str, Any],
    vocabulary: Vocabulary,
    description: EngineDescription,
) -> None:
    (folder / TOKENIZER_FILE).write_bytes(tokenizer_bytes(document))
    weights = folder / target.weights_file
    end_id = description.end_ids[0]
    target.write_weights(weights, checkpoint, vocabulary, name_of(document), end_id)


def _write_manifest(
    folder: Path, target: Target, description: EngineDescription
) -> dict[str, Any]:
    files = {
        "weights": engine_file(folder / target.weights_file),
        "tokenizer": engine_file(folder / TOKENIZER_FILE),
    }
    manifest = manifest_of(description, files, _tool_versions())
    (folder / MANIFEST_FILE).write_bytes(manifest_bytes(manifest))
    return manifest


def _tool_versions() -> dict[str, str]:
    return {
        "warmline-builder": BUILDER_VERSION,
        "gguf": version("gguf"),
        "tokenizers": version("tokenizers"),
    }


def _expected_bytes(checkpoint: Checkpoint) -> int:
    return sum(stored_bytes(tensor) for tensor in checkpoint.tensors)


def _input_digest(request: BuildRequest) -> str:
    """One digest over every byte and option that the result depends on."""
    if not request.checkpoint.exists():
        raise BuildRefusedError(
            f"{request.checkpoint} does not exist.",
            "a Hugging Face checkpoint folder, or a .gguf file.",
            "correct the path.",
        )
    if request.checkpoint.is_dir():
        files = source_files(request.checkpoint, request.tokenizer)
    else:
        files = (request.checkpoint, *([request.tokenizer] if request.tokenizer else []))
    card = card_path(request.checkpoint)
    inputs = {
        "target": request.target,
        "name": request.name or request.checkpoint.resolve().stem,
        "origin": _is_reference(request),
        "context_tokens": request.context_tokens,
        "fim_family": request.fim_family,
        "tool_versions": _tool_versions(),
        "files": [engine_file(path).sha256 for path in files],
        "card": engine_file(card).sha256 if card.is_file() else None,
    }
    return "sha256:" + hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
