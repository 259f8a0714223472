"""The tensors of a Llama- or Qwen2-type decoder, by both of their names, with their shapes.

The GGUF names and the row order of rotary projections are those of the GGUF specification and of
its reference converter; the Hugging Face names are those of the `transformers` classes
`LlamaForCausalLM` and `Qwen2ForCausalLM`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from builders.checkpoints.checkpoint import Architecture

EMBEDDING = "token_embd.weight"
OUTPUT_HEAD = "output.weight"


@dataclass(frozen=True)
class TensorSpec:
    """One tensor that the architecture needs.

    `rotary_heads` is set where the GGUF file keeps the rows of each head interleaved, which it
    does for the Llama family's query and key projections only.
    """

    gguf_name: str
    hugging_face_name: str
    shape: tuple[int, ...]
    rotary_heads: int | None = None


def tensor_specs(architecture: Architecture, *, tied: bool) -> tuple[TensorSpec, ...]:
    """Every tensor, in the order in which they are written.

    `tied`: the output head is the embedding, so there is no tensor of its own for it.
    """
    a = architecture
    vocabulary_matrix = (a.vocabulary_size, a.hidden_size)
    specs = [TensorSpec(EMBEDDING, "model.embed_tokens.weight", vocabulary_matrix)]
    for layer in range(a.layers):
        specs += _layer_specs(a, layer)
    specs.append(TensorSpec("output_norm.weight", "model.norm.weight", (a.hidden_size,)))
    if not tied:
        specs.append(TensorSpec(OUTPUT_HEAD, "lm_head.weight", vocabulary_matrix))
    return tuple(specs)


def _layer_specs(a: Architecture, layer: int) -> Iterator[TensorSpec]:
    gguf, hugging_face = f"blk.{layer}.", f"model.layers.{layer}."
    query_rows, key_rows = a.attention_heads * a.head_dim, a.key_value_heads * a.head_dim
    interleaved = a.family == "llama"
    projections = (
        ("attn_q", "self_attn.q_proj", query_rows, a.attention_heads if interleaved else None),
        ("attn_k", "self_attn.k_proj", key_rows, a.key_value_heads if interleaved else None),
        ("attn_v", "self_attn.v_proj", key_rows, None),
    )
    matrices = (
        ("attn_output", "self_attn.o_proj", (a.hidden_size, query_rows)),
        ("ffn_gate", "mlp.gate_proj", (a.feed_forward_size, a.hidden_size)),
        ("ffn_up", "mlp.up_proj", (a.feed_forward_size, a.hidden_size)),
        ("ffn_down", "mlp.down_proj", (a.hidden_size, a.feed_forward_size)),
        ("attn_norm", "input_layernorm", (a.hidden_size,)),
        ("ffn_norm", "post_attention_layernorm", (a.hidden_size,)),
    )
    for ours, theirs, rows, heads in projections:
        names = (f"{gguf}{ours}.weight", f"{hugging_face}{theirs}.weight")
        yield TensorSpec(*names, (rows, a.hidden_size), heads)
        if a.family == "qwen2":
            yield TensorSpec(f"{gguf}{ours}.bias", f"{hugging_face}{theirs}.bias", (rows,))
    for ours, theirs, shape in matrices:
        yield TensorSpec(f"{gguf}{ours}.weight", f"{hugging_face}{theirs}.weight", shape)


def interleave_rotary_rows(weight: npt.NDArray[Any], heads: int) -> npt.NDArray[Any]:
    """Reorder the rows of a rotary projection from half-split pairs to neighbouring pairs.

    `weight` is [heads * head_dim, columns]. Hugging Face rotates row i of a head together with
    row i + head_dim/2, GGUF's Llama layout row 2i together with row 2i + 1.
    """
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)
