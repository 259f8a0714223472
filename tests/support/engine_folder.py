"""An engine folder as the request plane reads it: the reference tokenizer, no weights."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.support.orchestrator import TOKENIZER_FILE

MANIFEST: dict[str, Any] = {
    "manifest_version": 1,
    "name": "warmline-reference",
    "engine_digest": "sha256:0123",
    "origin": "reference",
    "context_tokens": 1536,
    "reserved_salt_tokens": 8,
    "fim": {
        "family": "suffix_first",
        "prefix_id": 1,
        "suffix_id": 3,
        "middle_id": 2,
        "pad_id": 4,
        "file_separator_id": 6,
        "repository_name_id": 5,
    },
    "end_ids": [0],
    "control_ids": [0, 1, 2, 3, 4, 5, 6],
    "files": {"weights": {"path": "model.gguf", "sha256": "x"}},
}


def engine_folder(folder: Path, digest: str | None = None, **changes: Any) -> Path:
    content = TOKENIZER_FILE.read_bytes()
    (folder / "tokenizer.json").write_bytes(content)
    named = {"path": "tokenizer.json", "sha256": digest or sha256(content).hexdigest()}
    manifest = MANIFEST | {"files": MANIFEST["files"] | {"tokenizer": named}} | changes
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
