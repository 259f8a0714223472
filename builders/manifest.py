"""The engine's manifest: what is in the folder, and everything that a server must know of it.

The format is described in docs/engine-manifest.md. The digest covers the files' digests and every
field that changes what the engine answers; tool versions and the evaluation do not.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builders.checkpoints.checkpoint import Architecture
from builders.fim import FimTemplate

MANIFEST_VERSION = 1
MANIFEST_FILE = "manifest.json"
# Room at the start of every prompt for the cache salt of engines that have none of their own.
RESERVED_SALT_TOKENS = 8
NOT_IN_DIGEST = ("engine_digest", "tool_versions", "eval_run_id")
ARCHITECTURE_FIELDS = (
    "family",
    "layers",
    "hidden_size",
    "attention_heads",
    "key_value_heads",
    "head_dim",
    "vocabulary_size",
)


@dataclass(frozen=True)
class EngineFile:
    """One file of the folder: its name there, its size and its digest."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class EngineDescription:
    """The semantic content of a manifest."""

    name: str
    origin: str
    target: str
    precision: str
    architecture: Architecture
    context_tokens: int
    fim: FimTemplate
    end_ids: tuple[int, ...]
    control_ids: tuple[int, ...]
    newline_ids: tuple[int, ...]
    block_tokens: int
    tiers: tuple[str, ...]


def manifest_of(
    description: EngineDescription,
    files: Mapping[str, EngineFile],
    tool_versions: Mapping[str, str],
) -> dict[str, Any]:
    """The manifest as a document; a pure function of its inputs."""
    d = description
    document = {
        "manifest_version": MANIFEST_VERSION,
        "name": d.name,
        "origin": d.origin,
        "target": d.target,
        "precision": d.precision,
        "architecture": {key: getattr(d.architecture, key) for key in ARCHITECTURE_FIELDS},
        "context_tokens": d.context_tokens,
        "reserved_salt_tokens": RESERVED_SALT_TOKENS,
        "fim": _fim_document(d.fim),
        "end_ids": list(d.end_ids),
        "control_ids": list(d.control_ids),
        "newline_ids": list(d.newline_ids),
        "files": {role: asdict(file) for role, file in files.items()},
        "decoding": {
            "block_tokens": d.block_tokens,
            "tiers": [{"name": tier} for tier in d.tiers],
        },
        "tool_versions": dict(tool_versions),
        "eval_run_id": "",
    }
    return {**document, "engine_digest": engine_digest(document)}


def _fim_document(fim: FimTemplate) -> dict[str, Any]:
    document = asdict(fim)
    if fim.begin_id is None:  # only families that need it carry the key
        del document["begin_id"]
    return document


def engine_digest(document: Mapping[str, Any]) -> str:
    """`sha256:` and the hex digest of the fields that make the engine what it is."""
    semantic = {key: value for key, value in document.items() if key not in NOT_IN_DIGEST}
    canonical = json.dumps(semantic, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def manifest_bytes(document: Mapping[str, Any]) -> bytes:
    """The stored form: UTF-8, sorted keys, two spaces, a newline at the end."""
    return (json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()


def engine_file(path: Path) -> EngineFile:
    """Size and digest of one file in the engine folder."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return EngineFile(path.name, path.stat().st_size, digest)
