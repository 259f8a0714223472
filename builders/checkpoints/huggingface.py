"""Reads a Hugging Face checkpoint folder: `config.json`, safetensors, `tokenizer.json`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

from builders.checkpoints.checkpoint import Checkpoint, DeclaredTokens, StoredTensor, as_float32
from builders.checkpoints.huggingface_config import architecture_from_config
from builders.checkpoints.safetensors_shards import (
    INDEX_FILE,
    ShardTensor,
    read_shards,
    shard_files,
)
from builders.checkpoints.tensor_names import (
    OUTPUT_HEAD,
    TensorSpec,
    interleave_rotary_rows,
    tensor_specs,
)
from builders.json_files import read_json_object
from builders.refusals import BuildRefusedError
from builders.vocabulary.tokenizer_json import read_tokenizer_json

CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
TOKENIZER_FILE = "tokenizer.json"


def source_files(folder: Path, tokenizer: Path | None) -> tuple[Path, ...]:
    """Every file that the result depends on, for the digest of the input."""
    optional = [folder / GENERATION_FILE, folder / INDEX_FILE]
    present = [path for path in optional if path.is_file()]
    used_tokenizer = tokenizer or folder / TOKENIZER_FILE
    if not (folder / CONFIG_FILE).is_file():
        raise BuildRefusedError(
            f"{folder} has no {CONFIG_FILE}.",
            "a Hugging Face checkpoint folder, or a single .gguf file.",
            "name the folder that holds config.json and the weights.",
        )
    if not used_tokenizer.is_file():
        raise BuildRefusedError(
            f"{folder} has no {TOKENIZER_FILE}.",
            "a tokenizer in the format of the tokenizers library.",
            "pass one with --tokenizer PATH.",
        )
    return (folder / CONFIG_FILE, *present, *shard_files(folder), used_tokenizer)


def read_huggingface(folder: Path, tokenizer: Path | None) -> Checkpoint:
    """The checkpoint in `folder`; raises `BuildRefusedError` where it cannot be served."""
    config = read_json_object(folder / CONFIG_FILE)
    architecture = architecture_from_config(config)
    stored = read_shards(shard_files(folder))
    specs = tensor_specs(architecture, tied=bool(config.get("tie_word_embeddings", False)))
    _refuse_unknown_tensors(stored, specs)
    return Checkpoint(
        architecture=architecture,
        tensors=tuple(_stored_tensor(spec, stored) for spec in specs),
        precision="f16",
        self_description=f"{config.get('_name_or_path', '')} {folder.name}".lower(),
        declared=_declared_tokens(folder, config),
        tokenizer_document=read_tokenizer_json(tokenizer or folder / TOKENIZER_FILE),
    )


def _stored_tensor(spec: TensorSpec, stored: Mapping[str, ShardTensor]) -> StoredTensor:
    tensor = stored.get(spec.hugging_face_name)
    if tensor is None or tensor.shape != spec.shape:
        found = "is missing" if tensor is None else f"has the shape {list(tensor.shape)}"
        raise BuildRefusedError(
            f"The tensor {spec.hugging_face_name} {found}.",
            f"the shape {list(spec.shape)}, which follows from config.json.",
            "use the config.json and the weights of one and the same checkpoint.",
        )
    matrix = len(spec.shape) > 1
    kind = GGMLQuantizationType.F16 if matrix else GGMLQuantizationType.F32
    return StoredTensor(spec.gguf_name, spec.shape, kind, _loader(spec, tensor))


def _loader(spec: TensorSpec, tensor: ShardTensor) -> Callable[[], npt.NDArray[Any]]:
    def load() -> npt.NDArray[Any]:
        values = tensor.load()
        if spec.rotary_heads is not None:
            values = interleave_rotary_rows(values, spec.rotary_heads)
        return _half(values, spec) if len(spec.shape) > 1 else as_float32(values)

    return load


def _half(values: npt.NDArray[Any], spec: TensorSpec) -> npt.NDArray[np.float16]:
    with np.errstate(over="ignore"):
        half = values.astype(np.float16, copy=False)
    if not np.isfinite(half).all():
        raise BuildRefusedError(
            f"The tensor {spec.hugging_face_name} has values that float16 cannot hold.",
            f"values between -{np.finfo(np.float16).max} and {np.finfo(np.float16).max}.",
            "check that the checkpoint is whole; weights of this size are not usual.",
        )
    return half


def _refuse_unknown_tensors(
    stored: Mapping[str, ShardTensor], specs: tuple[TensorSpec, ...]
) -> None:
    """A tensor that the graph has no place for would be silently left out of the computation."""
    known = {spec.hugging_face_name for spec in specs}
    if not any(spec.gguf_name == OUTPUT_HEAD for spec in specs):
        known.add("lm_head.weight")  # saved twice by some tools although it is tied
    unknown = sorted(n for n in stored if n not in known and not n.endswith("rotary_emb.inv_freq"))
    if unknown:
        raise BuildRefusedError(
            f"The checkpoint has {len(unknown)} tensors that its architecture does not use, "
            f"for example {unknown[0]}.",
            "the tensors of LlamaForCausalLM or Qwen2ForCausalLM.",
            "merge adapters into the weights, or choose another checkpoint.",
        )


def _declared_tokens(folder: Path, config: Mapping[str, Any]) -> DeclaredTokens:
    path = folder / GENERATION_FILE
    generation = read_json_object(path) if path.is_file() else {}
    # Order matters: the first end id is the model's own end of text.
    ends = dict.fromkeys((*_ids(config, "eos_token_id"), *_ids(generation, "eos_token_id")))
    begin = _ids(config, "bos_token_id")
    return DeclaredTokens(end_ids=tuple(ends), begin_id=begin[0] if begin else None)


def _ids(document: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = document.get(key)
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (int(value),)
