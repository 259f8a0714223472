import numpy as np

from builders.checkpoints.checkpoint import Architecture
from builders.checkpoints.tensor_names import interleave_rotary_rows, tensor_specs


def architecture(family: str) -> Architecture:
    return Architecture(
        family=family,
        layers=2,
        hidden_size=64,
        feed_forward_size=96,
        attention_heads=4,
        key_value_heads=2,
        head_dim=32,
        vocabulary_size=100,
        context_tokens=512,
        norm_epsilon=1e-6,
        rope_theta=1e4,
    )


def test_half_split_pairs_become_neighbours_within_each_head() -> None:
    rows = np.arange(12)[:, None]  # two heads of six rows: pairs (0,3) (1,4) (2,5), (6,9) ...
    moved = interleave_rotary_rows(rows, heads=2)[:, 0]
    assert moved.tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]


def test_only_the_llama_familys_query_and_key_rows_move() -> None:
    moved = {
        spec.gguf_name: spec.rotary_heads
        for spec in tensor_specs(architecture("llama"), tied=True)
        if spec.rotary_heads
    }
    assert moved == {
        "blk.0.attn_q.weight": 4,
        "blk.0.attn_k.weight": 2,
        "blk.1.attn_q.weight": 4,
        "blk.1.attn_k.weight": 2,
    }
    assert not any(s.rotary_heads for s in tensor_specs(architecture("qwen2"), tied=True))


def test_only_the_qwen2_family_has_biases_and_they_follow_the_head_size() -> None:
    biases = {
        spec.gguf_name: spec.shape
        for spec in tensor_specs(architecture("qwen2"), tied=True)
        if spec.gguf_name.startswith("blk.0.") and spec.gguf_name.endswith(".bias")
    }
    assert biases == {
        "blk.0.attn_q.bias": (128,),
        "blk.0.attn_k.bias": (64,),
        "blk.0.attn_v.bias": (64,),
    }
    llama = tensor_specs(architecture("llama"), tied=True)
    assert not any(spec.gguf_name.endswith(".bias") for spec in llama)


def test_an_untied_model_has_an_output_head_of_its_own() -> None:
    tied = {spec.gguf_name for spec in tensor_specs(architecture("llama"), tied=True)}
    untied = {spec.gguf_name for spec in tensor_specs(architecture("llama"), tied=False)}
    assert untied - tied == {"output.weight"}
