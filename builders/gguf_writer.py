"""Writes the weights of an engine as one GGUF file that openvino-genai loads.

The file is a function of the checkpoint and its tokenizer alone: no name, date or tool version
goes in, so the same input gives the same bytes.
"""

from pathlib import Path

import numpy as np
from gguf import (
    GGML_QUANT_SIZES,
    GGMLQuantizationType,
    GGUFWriter,
    LlamaFileType,
    quant_shape_to_byte_shape,
)

from builders.checkpoints.checkpoint import Architecture, Checkpoint, StoredTensor
from builders.vocabulary.vocabulary import Vocabulary

FILE_TYPES = {
    "f16": LlamaFileType.MOSTLY_F16,
    "q8_0": LlamaFileType.MOSTLY_Q8_0,
    "q4_k_m": LlamaFileType.MOSTLY_Q8_0,  # converted, see builders/precision.py
}
FLOATS = {GGMLQuantizationType.F16: np.float16, GGMLQuantizationType.F32: np.float32}


def write_gguf(
    path: Path, checkpoint: Checkpoint, vocabulary: Vocabulary, pre_tokenizer: str, end_id: int
) -> None:
    """Write `path`; tensors are converted and written one at a time.

    `end_id` goes in as the end of text, `pre_tokenizer` as the name of the splitting rules.
    """
    writer = GGUFWriter(path, checkpoint.architecture.family)
    try:
        _add_architecture(writer, checkpoint.architecture)
        writer.add_file_type(FILE_TYPES[checkpoint.precision])
        writer.add_quantization_version(2)
        _add_vocabulary(writer, vocabulary, pre_tokenizer, end_id)
        for tensor in checkpoint.tensors:
            _add_tensor_info(writer, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in checkpoint.tensors:
            writer.write_tensor_data(np.ascontiguousarray(tensor.load()))
    finally:
        writer.close()


def _add_architecture(writer: GGUFWriter, a: Architecture) -> None:
    writer.add_context_length(a.context_tokens)
    writer.add_embedding_length(a.hidden_size)
    writer.add_block_count(a.layers)
    writer.add_feed_forward_length(a.feed_forward_size)
    writer.add_head_count(a.attention_heads)
    writer.add_head_count_kv(a.key_value_heads)
    writer.add_key_length(a.head_dim)
    writer.add_value_length(a.head_dim)
    writer.add_layer_norm_rms_eps(a.norm_epsilon)
    writer.add_rope_freq_base(a.rope_theta)
    writer.add_rope_dimension_count(a.head_dim)
    writer.add_vocab_size(a.vocabulary_size)


def _add_vocabulary(
    writer: GGUFWriter, vocabulary: Vocabulary, pre_tokenizer: str, end_id: int
) -> None:
    # The engine builds a tokenizer from these even though it is only ever given ids; "gpt2" is
    # the one kind that it can build.
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types([int(kind) for kind in vocabulary.kinds])
    writer.add_token_merges(list(vocabulary.merges))
    writer.add_bos_token_id(end_id)
    writer.add_eos_token_id(end_id)
    writer.add_add_bos_token(False)


def _add_tensor_info(writer: GGUFWriter, tensor: StoredTensor) -> None:
    if tensor.kind in FLOATS:
        dtype = np.dtype(FLOATS[tensor.kind])
        writer.add_tensor_info(tensor.name, tensor.shape, dtype, stored_bytes(tensor))
        return
    rows = quant_shape_to_byte_shape(tensor.shape, tensor.kind)
    dtype = np.dtype(np.uint8)
    writer.add_tensor_info(tensor.name, rows, dtype, stored_bytes(tensor), raw_dtype=tensor.kind)


def stored_bytes(tensor: StoredTensor) -> int:
    """Size of the tensor's data in the file."""
    block_elements, block_bytes = GGML_QUANT_SIZES[tensor.kind]
    return int(np.prod(tensor.shape)) // block_elements * block_bytes
