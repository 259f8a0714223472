"""The reader of an engine folder's `manifest.json`, the file that builders and engines share.

Only the fields that the request plane needs are typed; others are the builder's and the replica's
affair and are ignored here. See docs/engine-manifest.md for the whole format.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
CONTEXT_TOKENS_MIN = 256
"""Below this no recipe can hold a line, its answer and any context."""

_NO_TEMPLATE = (
    "an engine needs a fill-in-the-middle template of the family suffix_first or prefix_first; "
    "build it from a checkpoint that was trained for infilling"
)


class EngineFolderError(ValueError):
    """The engine folder cannot be served; the message says what is wrong and what to do."""


class FimFamily(StrEnum):
    """The order in which a model was trained to see suffix and prefix."""

    SUFFIX_FIRST = "suffix_first"
    PREFIX_FIRST = "prefix_first"


class Origin(StrEnum):
    """`local` engines were given by a person and have not been evaluated."""

    REFERENCE = "reference"
    LOCAL = "local"


class FimTemplate(msgspec.Struct, frozen=True):
    """The model's fill-in-the-middle markers, as token ids.

    `middle_id` is None for a model whose prompt ends with the prefix; `begin_id` is the
    begin-of-text token of a family whose prompts start with it.
    """

    family: FimFamily
    prefix_id: TokenId
    suffix_id: TokenId
    middle_id: TokenId | None
    file_separator_id: TokenId | None = None
    begin_id: TokenId | None = None


class ManifestFile(msgspec.Struct, frozen=True):
    """One file of the folder with its digest."""

    path: str
    sha256: str


class ManifestFiles(msgspec.Struct, frozen=True):
    """The files that the request plane reads."""

    tokenizer: ManifestFile


class EngineManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine is and how its prompts are made."""

    manifest_version: Annotated[int, Meta(ge=1, le=1)]
    engine_digest: Annotated[str, Meta(min_length=1)]
    origin: Origin
    context_tokens: Annotated[int, Meta(ge=CONTEXT_TOKENS_MIN)]
    reserved_salt_tokens: Annotated[int, Meta(ge=0)]
    fim: FimTemplate
    end_ids: tuple[TokenId, ...]
    control_ids: tuple[TokenId, ...]
    files: ManifestFiles


def read_manifest(engine_dir: Path) -> EngineManifest:
    """The manifest of an engine folder; raises `EngineFolderError`."""
    path = engine_dir / "manifest.json"
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=EngineManifest)
    except OSError as error:
        raise EngineFolderError(
            f"engine manifest {path}: {error.strerror}; build the engine first"
        ) from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        # msgspec names the place as `$.fim.family`, or the missing field in backquotes.
        raise EngineFolderError(
            f"engine manifest {path}: {error}; "
            + (_NO_TEMPLATE if "fim" in str(error) else "rebuild it with this version's builder")
        ) from error
    unusable = _unusable(manifest)
    if unusable:
        raise EngineFolderError(f"engine manifest {path}: {unusable}; {_NO_TEMPLATE}")
    return manifest


def _unusable(manifest: EngineManifest) -> str:
    """Why no prompt can be made with the manifest's template; empty where one can."""
    fim = manifest.fim
    markers = [each for each in (fim.prefix_id, fim.suffix_id, fim.middle_id) if each is not None]
    if len(set(markers)) < len(markers):
        return f"fim: prefix, suffix and middle must be different tokens, got {markers}"
    if fim.family is FimFamily.PREFIX_FIRST and fim.middle_id is None:
        return "fim.middle_id: null, but a prefix_first prompt ends with the middle marker"
    others = (fim.file_separator_id, fim.begin_id)
    used = {*markers, *(each for each in others if each is not None)}
    if not used <= set(manifest.control_ids):
        return f"fim: markers {sorted(used - set(manifest.control_ids))} are no control_ids"
    return ""


def read_tokenizer_file(engine_dir: Path, manifest: EngineManifest) -> bytes:
    """The bytes of `tokenizer.json`, checked against the manifest; raises `EngineFolderError`."""
    named = manifest.files.tokenizer
    path = engine_dir / named.path
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EngineFolderError(f"tokenizer {path}: {error.strerror}") from error
    actual = sha256(content).hexdigest()
    if actual != named.sha256:
        raise EngineFolderError(
            f"tokenizer {path}: its sha256 is {actual}, the manifest says {named.sha256}; "
            "the folder is damaged or half-written, rebuild the engine"
        )
    return content
