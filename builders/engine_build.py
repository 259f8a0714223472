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
from builders.engine_plan import BuildRequest, EnginePlan, plan_engine
from builders.gguf_writer import stored_bytes
from builders.manifest import MANIFEST_FILE, engine_file, manifest_bytes, manifest_of
from builders.precision import as_engine_tensor
from builders.refusals import BuildRefusedError
from builders.targets import Target, target_named
from builders.vocabulary.pre_tokenizers import name_of
from builders.vocabulary.tokenizer_json import tokenizer_bytes, tokenizer_file

BUILDER_VERSION = "1"
TOKENIZER_FILE = "tokenizer.json"


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
        plan = plan_engine(request, target, checkpoint, read_card(request.checkpoint))
        expected_bytes = sum(stored_bytes(tensor) for tensor in checkpoint.tensors)
        with staged(request.output, expected_bytes) as folder:
            announce("writing the engine")
            manifest = _write(folder, target, checkpoint, plan)
            (folder / BUILD_FILE).write_bytes(manifest_bytes({"input_digest": input_digest}))
    return BuildResult(manifest, built=True)


def _read(request: BuildRequest) -> Checkpoint:
    reader = read_huggingface if request.checkpoint.is_dir() else read_gguf
    checkpoint = reader(request.checkpoint, request.tokenizer)
    return replace(checkpoint, tensors=tuple(map(as_engine_tensor, checkpoint.tensors)))


def _write(
    folder: Path, target: Target, checkpoint: Checkpoint, plan: EnginePlan
) -> dict[str, Any]:
    """Write tokenizer, weights and, last, the manifest over both."""
    tokenizer, weights = folder / TOKENIZER_FILE, folder / target.weights_file
    document, end_id = plan.tokenizer_document, plan.description.end_ids[0]
    tokenizer.write_bytes(tokenizer_bytes(document))
    target.write_weights(weights, checkpoint, plan.vocabulary, name_of(document), end_id)
    files = {"weights": engine_file(weights), "tokenizer": engine_file(tokenizer)}
    manifest = manifest_of(plan.description, files, _tool_versions())
    (folder / MANIFEST_FILE).write_bytes(manifest_bytes(manifest))
    return manifest


def _tool_versions() -> dict[str, str]:
    return {
        "warmline-builder": BUILDER_VERSION,
        "gguf": version("gguf"),
        "tokenizers": version("tokenizers"),
    }


def _input_digest(request: BuildRequest) -> str:
    """One digest over every byte and option that the result depends on."""
    if not request.checkpoint.exists():
        raise BuildRefusedError(
            f"{request.checkpoint} does not exist.",
            "a Hugging Face checkpoint folder, or a .gguf file.",
            "correct the path.",
        )
    try:
        inputs = _inputs(request)
    except OSError as error:
        raise BuildRefusedError(
            f"{error.filename} cannot be read: {error.strerror}.",
            "a checkpoint that this user may read.",
            "change its permissions, or copy it.",
        ) from error
    return "sha256:" + hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _inputs(request: BuildRequest) -> dict[str, Any]:
    card = card_path(request.checkpoint)
    return {
        "target": request.target,
        "name": request.name or request.own_name,
        "origin": request.origin,
        "context_tokens": request.context_tokens,
        "fim_family": request.fim_family,
        "tool_versions": _tool_versions(),
        "files": [engine_file(path).sha256 for path in _input_files(request)],
        "card": engine_file(card).sha256 if card.is_file() else None,
    }


def _input_files(request: BuildRequest) -> tuple[Path, ...]:
    tokenizer = tokenizer_file(request.tokenizer) if request.tokenizer else None
    if request.checkpoint.is_dir():
        return source_files(request.checkpoint, tokenizer)
    return (request.checkpoint, *([tokenizer] if tokenizer else []))
