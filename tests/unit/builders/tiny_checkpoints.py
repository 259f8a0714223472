"""Small random checkpoints in the layouts of published ones, for the builder's tests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from safetensors import TensorSpec, serialize_file
from tokenizers import AddedToken, Tokenizer, decoders, models, trainers
from tokenizers.pre_tokenizers import ByteLevel

QWEN_MARKERS = (
    "<|endoftext|>",
    "<|im_end|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
TEXT = [
    "def add(first, second):\n    return first + second\n",
    "class Shop:\n    def __init__(self, name: str) -> None:\n        self.name = name\n",
    "for index, value in enumerate(values):\n    print(f'{index}: {value}')\n",
    "import os\n\nif __name__ == '__main__':\n    print(os.getcwd(), 1234567)\n",
]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a random model; `head_dim` is deliberately not hidden / heads."""

    layers: int = 2
    hidden: int = 256
    feed_forward: int = 320
    heads: int = 6
    key_value_heads: int = 2
    head_dim: int = 32
    rows: int = 704


def tokenizer_document(
    markers: tuple[str, ...] = QWEN_MARKERS,
    rules: Mapping[str, Any] | None = None,
    vocabulary_size: int = 600,
) -> dict[str, Any]:
    """A byte-level BPE tokenizer; `rules` replaces parts of its tokenizer.json before training.

    As in Qwen2.5-Coder's, only the first two added tokens are marked special.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if rules:
        document = json.loads(tokenizer.to_str())
        tokenizer = Tokenizer.from_str(json.dumps({**document, **rules}))
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT * 3, trainer)
    for place, marker in enumerate(markers):
        token = AddedToken(marker, special=place < 2, normalized=False)
        add = tokenizer.add_special_tokens if place < 2 else tokenizer.add_tokens
        add([token])
    return json.loads(tokenizer.to_str())


def byte_fallback_document() -> dict[str, Any]:
    """A tokenizer in the manner of Code Llama's: SentencePiece text, bytes as a last resort."""
    markers = ("</s>", "<s>", "\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", "\u2581<EOT>")
    texts = ["<unk>", *markers, *(f"<0x{byte:02X}>" for byte in range(256))]
    texts += ["\u2581", "d", "e", "f", "x", "de", "def", "\u2581def", "\n\n"]
    added = [
        {
            "id": place,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for place, text in enumerate(texts[: 1 + len(markers)])
    ]
    spaces = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    model = {
        "type": "BPE",
        "unk_token": "<unk>",
        "fuse_unk": True,
        "byte_fallback": True,
        "vocab": {text: place for place, text in enumerate(texts)},
        "merges": [["d", "e"], ["de", "f"], ["\u2581", "def"]],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Prepend", "prepend": "\u2581"},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [spaces, {"type": "ByteFallback"}]},
        "model": model,
    }


def end_of_text(document: Mapping[str, Any]) -> int:
    """The id of the first marker, which stands for the end of text."""
    return min(token["id"] for token in document["added_tokens"])


def random_weights(family: str, sizes: Sizes, *, tied: bool, seed: int = 7) -> dict[str, Any]:
    """Float32 weights by Hugging Face name, scaled so that greedy choices have clear margins."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        scale = 1.5 / np.sqrt(columns)
        return (random.normal(size=(rows, columns)) * scale).astype(np.float32)

    def vector(length: int, centre: float) -> np.ndarray:
        return (centre + random.normal(size=length) * 0.3).astype(np.float32)

    query, key = sizes.heads * sizes.head_dim, sizes.key_value_heads * sizes.head_dim
    weights = {
        "model.embed_tokens.weight": matrix(sizes.rows, sizes.hidden) * 4,
        "model.norm.weight": vector(sizes.hidden, 1.0),
    }
    if not tied:
        weights["lm_head.weight"] = matrix(sizes.rows, sizes.hidden)
    for layer in range(sizes.layers):
        prefix = f"model.layers.{layer}."
        for name, rows in (("q", query), ("k", key), ("v", key)):
            weights[f"{prefix}self_attn.{name}_proj.weight"] = matrix(rows, sizes.hidden)
            if family == "qwen2":
                weights[f"{prefix}self_attn.{name}_proj.bias"] = vector(rows, 0.0) * 3
        weights[f"{prefix}self_attn.o_proj.weight"] = matrix(sizes.hidden, query)
        for name in ("gate", "up"):
            shape = (sizes.feed_forward, sizes.hidden)
            weights[f"{prefix}mlp.{name}_proj.weight"] = matrix(*shape)
        weights[f"{prefix}mlp.down_proj.weight"] = matrix(sizes.hidden, sizes.feed_forward)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}{name}.weight"] = vector(sizes.hidden, 1.0)
    return weights


def config_of(family: str, sizes: Sizes, *, tied: bool, end_id: int) -> dict[str, Any]:
    return {
        "model_type": family,
        "hidden_act": "silu",
        "num_hidden_layers": sizes.layers,
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.feed_forward,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.key_value_heads,
        "head_dim": sizes.head_dim,
        "vocab_size": sizes.rows,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0},
        "tie_word_embeddings": tied,
        "eos_token_id": end_id,
    }


def rounded(weights: Mapping[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    """The weights as `dtype` (F16, BF16 or F32) keeps them, in float32."""
    if dtype == "F16":
        return {name: w.astype(np.float16).astype(np.float32) for name, w in weights.items()}
    if dtype == "BF16":
        mask = np.uint32(0xFFFF0000)
        return {name: (w.view(np.uint32) & mask).view(np.float32) for name, w in weights.items()}
    return dict(weights)


def write_huggingface(
    folder: Path,
    family: str = "qwen2",
    *,
    sizes: Sizes | None = None,
    dtype: str = "F16",
    shards: int = 1,
    tied: bool = True,
    markers: tuple[str, ...] = QWEN_MARKERS,
) -> dict[str, np.ndarray]:
    """Write a checkpoint folder; gives back its weights as the files hold them, in float32."""
    sizes = sizes or Sizes()
    folder.mkdir(parents=True, exist_ok=True)
    document = tokenizer_document(markers)
    config = config_of(family, sizes, tied=tied, end_id=end_of_text(document))
    weights = rounded(random_weights(family, sizes, tied=tied), dtype)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(document))
    write_shards(folder, weights, dtype, shards)
    return weights


def write_shards(
    folder: Path, weights: Mapping[str, np.ndarray], dtype: str = "F16", shards: int = 1
) -> None:
    names = sorted(weights)
    files = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        file = "model.safetensors" if shards == 1 else file
        part = names[number::shards]
        files |= dict.fromkeys(part, file)
        # The library reads the buffers by address, so they are held until it is done.
        stored = {name: _stored(weights[name], dtype) for name in part}
        specs = {name: _spec(array, dtype) for name, array in stored.items()}
        serialize_file(specs, str(folder / file), metadata={"format": "pt"})
    if shards > 1:
        index = {"metadata": {}, "weight_map": files}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _stored(weight: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "BF16":
        return (weight.view(np.uint32) >> 16).astype(np.uint16)
    return weight.astype(np.float16 if dtype == "F16" else np.float32)


def _spec(array: np.ndarray, dtype: str) -> TensorSpec:
    name = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}[dtype]
    shape, address = array.shape, array.ctypes.data
    return TensorSpec(dtype=name, shape=shape, data_ptr=address, data_len=array.nbytes)


GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
GGUF_PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name: str) -> str:
    """The GGUF name of a Hugging Face tensor."""
    if name in GGUF_NAMES:
        return GGUF_NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    part, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{GGUF_PARTS[part]}.{kind}"


def write_published_gguf(
    path: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, tuple[np.ndarray, GGMLQuantizationType]],
    document: Mapping[str, Any],
    *,
    file_type: LlamaFileType = LlamaFileType.MOSTLY_F16,
    extra: Mapping[str, Any] | None = None,
    pre: str = "qwen2",
) -> None:
    """A GGUF file as published converters write it, with metadata that an engine has no use for.

    `tensors` holds, by Hugging Face name, the packed data and its kind.
    """
    writer = GGUFWriter(path, config["model_type"])
    writer.add_name("Tiny Coder")
    writer.add_quantized_by("nobody")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_file_type(file_type)
    add_published_tokenizer(writer, document, config["vocab_size"], pre)
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_chat_template("{{ messages }}")
    for key, value in (extra or {}).items():
        add = writer.add_string if isinstance(value, str) else writer.add_uint32
        add(key, value)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(gguf_name(name), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_published_tokenizer(
    writer: GGUFWriter, document: Mapping[str, Any], rows: int, pre: str
) -> None:
    for key, value in published_tokenizer(document, rows, pre).items():
        if isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)


def published_tokenizer(document: Mapping[str, Any], rows: int, pre: str) -> dict[str, Any]:
    """The `tokenizer.ggml.*` metadata that published converters derive from a tokenizer.json."""
    texts = {i: text for text, i in document["model"]["vocab"].items()}
    kinds = dict.fromkeys(texts, TokenType.NORMAL)
    for token in document["added_tokens"]:
        texts[token["id"]] = token["content"]
        marker = token["special"] or token["content"].startswith("<|")
        kinds[token["id"]] = TokenType.CONTROL if marker else TokenType.USER_DEFINED
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [texts.get(i, f"[PAD{i}]") for i in range(rows)],
        "tokenizer.ggml.token_type": [int(kinds.get(i, TokenType.UNUSED)) for i in range(rows)],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in document["model"]["merges"]],
    }
