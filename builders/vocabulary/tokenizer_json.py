"""Reads, checks and writes `tokenizer.json`, the format of the tokenizers library.

The document is kept as parsed JSON, because we change one thing in it (which added tokens are
special) and must leave everything else as the model's author published it.
"""

import copy
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from builders.json_files import read_json_object
from builders.refusals import BuildRefusedError


def tokenizer_file(path: Path) -> Path:
    """The file that `--tokenizer` names; raises `BuildRefusedError` when there is none."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise BuildRefusedError(
            f"There is no tokenizer at {file}.",
            "a tokenizer.json, or a folder that holds one.",
            "pass the path of the model's tokenizer.json with --tokenizer.",
        )
    return file


def read_tokenizer_json(path: Path) -> dict[str, Any]:
    """The document at `path`, checked; raises `BuildRefusedError` when it is no BPE tokenizer."""
    document = read_json_object(tokenizer_file(path))
    try:
        Tokenizer.from_str(json.dumps(document))
    # The library raises bare Exception for every fault in a document.
    except Exception as error:
        raise _not_a_tokenizer(path, str(error)) from error
    model = document["model"].get("type")
    if model != "BPE":
        raise _not_a_tokenizer(path, f"its model is {model}, not BPE")
    return document


def _not_a_tokenizer(path: Path, why: str) -> BuildRefusedError:
    return BuildRefusedError(
        f"{path.name} cannot be used as a tokenizer: {why}.",
        "a tokenizer.json with a BPE model that the tokenizers library loads.",
        "pass the model's own tokenizer.json with --tokenizer PATH.",
    )


def with_special_tokens(document: dict[str, Any], control_ids: Collection[int]) -> dict[str, Any]:
    """The document with every control token marked special, so that text cannot spell one.

    Published tokenizers leave some markers unmarked (Qwen2.5-Coder's FIM markers, for one); then
    the encoder would turn the same characters in a user's file into the marker.
    """
    texts = {token_id: text for text, token_id in document["model"]["vocab"].items()}
    marked = copy.deepcopy(document)
    added = {token["id"]: token for token in marked["added_tokens"]}
    for token_id in sorted(control_ids):
        if token_id not in added:
            added[token_id] = added_token(token_id, texts[token_id], special=True)
        added[token_id]["special"] = True
        added[token_id]["normalized"] = False
    marked["added_tokens"] = [added[token_id] for token_id in sorted(added)]
    return marked


def added_token(token_id: int, content: str, *, special: bool) -> dict[str, Any]:
    """One entry of `added_tokens`, matched exactly as written."""
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def tokenizer_bytes(document: dict[str, Any]) -> bytes:
    """The document as stored in the engine folder: UTF-8, key order kept, same input same bytes."""
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()
