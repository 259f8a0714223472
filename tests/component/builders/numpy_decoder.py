"""An independent forward pass of a Llama- or Qwen2-type decoder, straight from safetensors.

Written from the model papers' equations (RMS norm, rotary embedding on half-split pairs, grouped
query attention, SwiGLU) in single precision. It shares no code with the builder, so that a wrong
row order, a lost bias or a wrong head size shows as another token.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file


class NumpyDecoder:
    """`config` and float32 `weights` by Hugging Face name; `logits(ids)` follow the last id."""

    @classmethod
    def of_folder(cls, folder: Path) -> "NumpyDecoder":
        """The decoder of a checkpoint folder in float16 or float32."""
        weights = load_file(folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text())
        return cls(config, {name: w.astype(np.float32) for name, w in weights.items()})

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> None:
        self.config = config
        self.weights = weights
        self.heads = self.config["num_attention_heads"]
        self.key_value_heads = self.config["num_key_value_heads"]
        self.head_dim = self.config["head_dim"]

    def logits(self, ids: list[int]) -> np.ndarray:
        hidden = self.weights["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            normed = self._norm(hidden, prefix + "input_layernorm")
            hidden = hidden + self._attention(normed, prefix + "self_attn.")
            normed = self._norm(hidden, prefix + "post_attention_layernorm")
            hidden = hidden + self._feed_forward(normed, prefix + "mlp.")
        head = "lm_head" if not self.config["tie_word_embeddings"] else "model.embed_tokens"
        return self._linear(self._norm(hidden, "model.norm")[-1], head)

    def greedy(self, ids: list[int], new_tokens: int) -> tuple[list[int], list[float], list[float]]:
        """New ids, their log-probabilities, and how far the runner-up was behind each."""
        ids, tokens, logprobs, margins = list(ids), [], [], []
        for _ in range(new_tokens):
            logits = self.logits(ids)
            shifted = logits - logits.max()
            second, first = np.sort(shifted)[-2:]
            token = int(shifted.argmax())
            logprobs.append(float(first - np.log(np.exp(shifted).sum())))
            margins.append(float(first - second))
            tokens.append(token)
            ids.append(token)
        return tokens, logprobs, margins

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[name + ".weight"].T + self.weights.get(
            name + ".bias", np.float32(0)
        )

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / scale * self.weights[name + ".weight"]

    def _feed_forward(self, x: np.ndarray, prefix: str) -> np.ndarray:
        gate = self._linear(x, prefix + "gate_proj")
        return self._linear(
            gate / (1 + np.exp(-gate)) * self._linear(x, prefix + "up_proj"), prefix + "down_proj"
        )

    def _attention(self, x: np.ndarray, prefix: str) -> np.ndarray:
        def heads(name: str, count: int) -> np.ndarray:
            return self._linear(x, prefix + name).reshape(len(x), count, -1).swapaxes(0, 1)

        repeats = self.heads // self.key_value_heads
        query = self._rotate(heads("q_proj", self.heads))
        key = self._rotate(heads("k_proj", self.key_value_heads)).repeat(repeats, axis=0)
        value = heads("v_proj", self.key_value_heads).repeat(repeats, axis=0)
        scores = query @ key.swapaxes(1, 2) / np.sqrt(self.head_dim)
        scores += np.triu(np.full((len(x), len(x)), -np.inf), 1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ value).swapaxes(0, 1).reshape(len(x), -1)
        return self._linear(mixed, prefix + "o_proj")

    def _rotate(self, x: np.ndarray) -> np.ndarray:
        """Rotary position embedding; `x` is [heads, positions, head_dim]."""
        half = self.head_dim // 2
        theta = self.config["rope_parameters"]["rope_theta"]
        frequencies = theta ** (-np.arange(half) / half)
        angles = np.arange(x.shape[1])[:, None] * frequencies
        cosine, sine = np.cos(angles), np.sin(angles)
        first, second = x[..., :half], x[..., half:]
        rotated = (first * cosine - second * sine, second * cosine + first * sine)
        return np.concatenate(rotated, axis=-1).astype(np.float32)
