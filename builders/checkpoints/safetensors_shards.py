"""Reads the tensors of one or many safetensors files as memory maps.

The file layout (8 bytes of header length, a JSON header with byte offsets, the data) is that of
the safetensors specification. The library checks the file; the mapping is ours because the
library's NumPy front cannot hand out bfloat16.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from builders.json_files import read_json_object
from builders.refusals import BuildRefusedError

INDEX_FILE = "model.safetensors.index.json"
FLOAT_TYPES = {"F16": "<f2", "BF16": "<u2", "F32": "<f4"}


@dataclass(frozen=True)
class ShardTensor:
    """Where one tensor lies: its file, its type name, shape and byte range."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def load(self) -> npt.NDArray[Any]:
        """The values, as float16 or float32; bfloat16 is widened to float32 without loss."""
        if self.dtype not in FLOAT_TYPES:
            raise BuildRefusedError(
                f"{self.path.name} holds a tensor of type {self.dtype}.",
                f"weights of type {', '.join(FLOAT_TYPES)}.",
                "convert the checkpoint to float16, or pass a GGUF file.",
            )
        stored = np.memmap(
            self.path, FLOAT_TYPES[self.dtype], "r", offset=self.offset, shape=self.shape
        )
        if self.dtype != "BF16":
            return np.asarray(stored)
        return (stored.astype(np.uint32) << 16).view(np.float32)


def shard_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a checkpoint folder, by its index where it has one."""
    index = folder / INDEX_FILE
    if not index.is_file():
        names = ["model.safetensors"]
    else:
        weight_map: Mapping[str, str] = read_json_object(index).get("weight_map", {})
        names = sorted(set(weight_map.values())) or ["model.safetensors"]
    files = tuple(folder / name for name in names)
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise BuildRefusedError(
            f"{folder} lacks the weight file {missing[0]} ({len(missing)} of {len(files)} missing)."
            + _other_weights(folder),
            f"model.safetensors, or shards named by {INDEX_FILE}.",
            "complete the download, or save the checkpoint as safetensors.",
        )
    return files


def _other_weights(folder: Path) -> str:
    others = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth") for p in folder.glob(pattern))
    return f" It has {others[0]}, which is not read because it can run code." if others else ""


def read_shards(files: tuple[Path, ...]) -> dict[str, ShardTensor]:
    """Every tensor of `files` by name, without reading the data."""
    tensors: dict[str, ShardTensor] = {}
    for path in files:
        _check(path)
        with path.open("rb") as stream:
            (header_bytes,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(header_bytes))
        for name, entry in header.items():
            if name != "__metadata__":
                offset = 8 + header_bytes + entry["data_offsets"][0]
                shape = tuple(entry["shape"])
                tensors[name] = ShardTensor(path, entry["dtype"], shape, offset)
    return tensors


def _check(path: Path) -> None:
    try:
        with safe_open(path, "numpy"):
            pass
    except SafetensorError as error:
        raise BuildRefusedError(
            f"{path.name} is not a whole safetensors file: {error}.",
            "files that the safetensors library opens.",
            "download or save the file again.",
        ) from error
