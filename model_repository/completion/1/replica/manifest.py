"""Reads an engine folder's `manifest.json` (docs/engine-manifest.md): what the replica needs of it.

Rule: a folder that does not match its manifest is refused before anything is loaded.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST_VERSION = 1


class ManifestError(Exception):
    """The engine folder cannot be served; the message says which field and why."""


@dataclass(frozen=True, slots=True)
class EngineManifest:
    """The part of a manifest that the replica acts on.

    Attributes:
        engine_digest: names the engine in every report.
        context_tokens: most tokens of salt, prompt and output together.
        reserved_salt_tokens: how many of them the salt takes.
        vocabulary_size: ids are 0 to this, exclusive.
        block_tokens: tokens in one cache block.
        end_ids: any of them ends a completion, unless the request names others.
        control_ids: special tokens; never used as salt.
        newline_ids: every id whose text contains a newline, for the newline rule.
        layers, key_value_heads, head_dim: size of one token's cache entry.
        weights: the model file.
    """

    engine_digest: str
    context_tokens: int
    reserved_salt_tokens: int
    vocabulary_size: int
    block_tokens: int
    end_ids: frozenset[int]
    control_ids: frozenset[int]
    newline_ids: frozenset[int]
    layers: int
    key_value_heads: int
    head_dim: int
    weights: Path

    @property
    def prompt_and_output_tokens_max(self) -> int:
        """What is left of the context after the salt."""
        return self.context_tokens - self.reserved_salt_tokens

    def block_bytes(self, bytes_per_element: float) -> int:
        """Bytes of keys and values of one block over all layers."""
        per_token = 2 * self.layers * self.key_value_heads * self.head_dim * bytes_per_element
        return int(per_token * self.block_tokens)


def read_manifest(engine_dir: Path) -> EngineManifest:
    """Read and check the manifest of `engine_dir`.

    Raises:
        ManifestError: the file is missing, is of another version, lacks a field, or the weights
            differ from it in size (digests are the builder's to check: weights can be gigabytes).
    """
    path = engine_dir / "manifest.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError("no manifest.json in the engine folder; build the engine") from None
    except ValueError as error:
        raise ManifestError(f"manifest.json is not JSON ({error}); build the engine anew") from None
    return parse_manifest(document, engine_dir)


def parse_manifest(document: dict[str, Any], engine_dir: Path) -> EngineManifest:
    """The manifest from its JSON object; `engine_dir` holds the files that it names."""
    version = document.get("manifest_version")
    if version != MANIFEST_VERSION:
        raise ManifestError(
            f"manifest_version must be {MANIFEST_VERSION}, is {version}; build the engine anew"
        )
    try:
        manifest = _manifest(document, engine_dir)
        weights_bytes = int(document["files"]["weights"]["bytes"])
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(
            f"manifest.json lacks or mistypes {error}; build the engine anew"
        ) from None
    _check(manifest, weights_bytes)
    return manifest


def _manifest(document: dict[str, Any], engine_dir: Path) -> EngineManifest:
    architecture = document["architecture"]
    return EngineManifest(
        engine_digest=str(document["engine_digest"]),
        context_tokens=int(document["context_tokens"]),
        reserved_salt_tokens=int(document["reserved_salt_tokens"]),
        vocabulary_size=int(architecture["vocabulary_size"]),
        block_tokens=int(document["decoding"]["block_tokens"]),
        end_ids=frozenset(map(int, document["end_ids"])),
        control_ids=frozenset(map(int, document["control_ids"])),
        newline_ids=frozenset(map(int, document["newline_ids"])),
        layers=int(architecture["layers"]),
        key_value_heads=int(architecture["key_value_heads"]),
        head_dim=int(architecture["head_dim"]),
        weights=engine_dir / str(document["files"]["weights"]["path"]),
    )


def _check(manifest: EngineManifest, weights_bytes: int) -> None:
    if manifest.reserved_salt_tokens < 1:
        raise ManifestError(
            "reserved_salt_tokens must be at least 1, or sessions would share a cache; "
            f"is {manifest.reserved_salt_tokens}"
        )
    if manifest.prompt_and_output_tokens_max < 2:
        raise ManifestError(
            f"context_tokens must exceed reserved_salt_tokens by 2, is {manifest.context_tokens}"
        )
    if not manifest.weights.is_file():
        raise ManifestError(f"the weights file {manifest.weights.name} is missing")
    actual = manifest.weights.stat().st_size
    if actual != weights_bytes:
        raise ManifestError(
            f"{manifest.weights.name} has {actual} bytes, the manifest says {weights_bytes}; "
            "build the engine anew"
        )
