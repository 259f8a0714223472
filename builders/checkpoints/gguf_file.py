"""Reads a single-file GGUF checkpoint of the Llama or Qwen2 architecture.

Key names are those of the GGUF specification. As in the Hugging Face reader, a setting that the
engine's graph has no place for is refused rather than ignored.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gguf import GGUFReader, LlamaFileType, ReaderTensor

from builders.checkpoints.checkpoint import (
    FAMILIES,
    Architecture,
    Checkpoint,
    DeclaredTokens,
    StoredTensor,
)
from builders.checkpoints.tensor_names import EMBEDDING, OUTPUT_HEAD, TensorSpec, tensor_specs
from builders.refusals import BuildRefusedError
from builders.vocabulary.gguf_metadata import PREFIX, tokenizer_from_metadata
from builders.vocabulary.tokenizer_json import read_tokenizer_json

FIM_PARTS = ("pre", "suf", "mid", "pad", "rep", "sep")
# Precision names of the file types that are promised and tested; others are refused.
PRECISIONS: dict[int, str] = {
    LlamaFileType.ALL_F32: "f16",  # written as float16, like every unquantised checkpoint
    LlamaFileType.MOSTLY_F16: "f16",
    LlamaFileType.MOSTLY_BF16: "f16",
    LlamaFileType.MOSTLY_Q8_0: "q8_0",
    LlamaFileType.MOSTLY_Q4_K_M: "q4_k_m",
}


def read_gguf(path: Path, tokenizer: Path | None) -> Checkpoint:
    """The checkpoint in the file; raises `BuildRefusedError` when it cannot be served."""
    reader = _open(path)
    metadata = {key: field.contents() for key, field in reader.fields.items()}
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    architecture = architecture_from_metadata(metadata, _embedding_rows(tensors))
    return Checkpoint(
        architecture=architecture,
        tensors=_stored_tensors(architecture, tensors),
        precision=_precision(metadata),
        self_description=_self_description(metadata, path),
        declared=_declared_tokens(metadata),
        tokenizer_document=(
            read_tokenizer_json(tokenizer) if tokenizer else tokenizer_from_metadata(metadata)
        ),
    )


def _open(path: Path) -> GGUFReader:
    try:
        return GGUFReader(path)
    # The reader has no error type of its own: a cut file shows as any of these.
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise BuildRefusedError(
            f"{path.name} is not a whole GGUF file: {error}.",
            "GGUF version 2 or 3.",
            "download the file again.",
        ) from error


def _embedding_rows(tensors: Mapping[str, ReaderTensor]) -> int:
    """The vocabulary of the weights, which the file's token list must not be trusted for."""
    embedding = tensors.get(EMBEDDING)
    return 0 if embedding is None else int(embedding.shape[-1])


def architecture_from_metadata(metadata: Mapping[str, Any], vocabulary_size: int) -> Architecture:
    """The sizes in the metadata; raises `BuildRefusedError` for what the engine cannot do."""
    family = metadata.get("general.architecture")
    if family not in FAMILIES:
        raise BuildRefusedError(
            f"The GGUF file's architecture is {family!r} (general.architecture).",
            f"the architectures {' and '.join(FAMILIES)}.",
            "choose a checkpoint of one of these, for example Qwen2.5-Coder.",
        )
    _refuse_unsupported_settings(metadata, family)
    heads = _whole(metadata, f"{family}.attention.head_count")
    hidden = _whole(metadata, f"{family}.embedding_length")
    return Architecture(
        family=family,
        layers=_whole(metadata, f"{family}.block_count"),
        hidden_size=hidden,
        feed_forward_size=_whole(metadata, f"{family}.feed_forward_length"),
        attention_heads=heads,
        key_value_heads=_whole(metadata, f"{family}.attention.head_count_kv", heads),
        head_dim=_whole(metadata, f"{family}.attention.key_length", hidden // heads),
        vocabulary_size=vocabulary_size,
        context_tokens=_whole(metadata, f"{family}.context_length"),
        norm_epsilon=float(metadata.get(f"{family}.attention.layer_norm_rms_epsilon", 1e-6)),
        rope_theta=float(metadata.get(f"{family}.rope.freq_base", 10_000.0)),
    )


def _whole(metadata: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = metadata.get(key, default)
    if not isinstance(value, int) or value < 1:
        raise BuildRefusedError(
            f"The GGUF file has {key} = {value!r}.",
            "one whole number of 1 or more.",
            "convert the model to GGUF again with a current converter.",
        )
    return value


def _refuse_unsupported_settings(metadata: Mapping[str, Any], family: str) -> None:
    scaling = metadata.get(f"{family}.rope.scaling.type", "none")
    experts = metadata.get(f"{family}.expert_count", 0)
    shards = metadata.get("split.count", 1)
    window = metadata.get(f"{family}.attention.sliding_window", 0)
    checks = (
        (scaling != "none", f"rotary scaling {scaling!r}", "no rotary scaling"),
        (experts > 0, f"{experts} experts", "dense models"),
        (shards > 1, f"{shards} files", "a single file: merge them first"),
        (window > 0, f"a sliding attention window of {window}", "full attention"),
    )
    for wrong, found, supported in checks:
        if wrong:
            raise BuildRefusedError(
                f"The GGUF file has {found}, which the engine cannot do.",
                f"{supported}.",
                "choose another checkpoint.",
            )


def _stored_tensors(
    architecture: Architecture, tensors: Mapping[str, ReaderTensor]
) -> tuple[StoredTensor, ...]:
    specs = tensor_specs(architecture, tied=OUTPUT_HEAD not in tensors)
    unknown = sorted(tensors.keys() - {spec.gguf_name for spec in specs})
    if unknown:
        raise BuildRefusedError(
            f"The GGUF file has {len(unknown)} tensors that the engine's graph does not use, "
            f"for example {unknown[0]}.",
            f"the tensors of a plain {architecture.family} model.",
            "choose another checkpoint.",
        )
    return tuple(_stored_tensor(spec, tensors) for spec in specs)


def _stored_tensor(spec: TensorSpec, tensors: Mapping[str, ReaderTensor]) -> StoredTensor:
    tensor = tensors.get(spec.gguf_name)
    # GGUF counts dimensions from the fastest; ours are rows first.
    shape = None if tensor is None else tuple(int(n) for n in reversed(tensor.shape))
    if tensor is None or shape != spec.shape:
        found = "is missing" if shape is None else f"has the shape {list(shape)}"
        raise BuildRefusedError(
            f"The tensor {spec.gguf_name} {found}.",
            f"the shape {list(spec.shape)}, which follows from the file's metadata.",
            "download the file again, or convert the model again.",
        )
    data = tensor.data
    return StoredTensor(spec.gguf_name, spec.shape, tensor.tensor_type, lambda: data)


def _precision(metadata: Mapping[str, Any]) -> str:
    file_type = metadata.get("general.file_type")
    precision = PRECISIONS.get(file_type) if isinstance(file_type, int) else None
    if precision is None:
        known = ", ".join(f"{LlamaFileType(kind).name} ({kind})" for kind in PRECISIONS)
        raise BuildRefusedError(
            f"The GGUF file's type is {file_type!r} (general.file_type).",
            f"{known}.",
            "choose the F16, Q8_0 or Q4_K_M file of the same model.",
        )
    return precision


def _self_description(metadata: Mapping[str, Any], path: Path) -> str:
    names = (metadata.get(f"general.{key}", "") for key in ("name", "basename", "finetune"))
    return " ".join((*map(str, names), path.stem)).lower()


def _declared_tokens(metadata: Mapping[str, Any]) -> DeclaredTokens:
    def token_id(name: str) -> int | None:
        value = metadata.get(f"{PREFIX}{name}_token_id")
        return value if isinstance(value, int) else None

    fim = {part: token_id(f"fim_{part}") for part in FIM_PARTS}
    ends = (token_id(name) for name in ("eos", "eot", "eom"))
    return DeclaredTokens(
        end_ids=tuple(dict.fromkeys(i for i in ends if i is not None)),
        begin_id=token_id("bos"),
        fim={part: i for part, i in fim.items() if i is not None},
    )
