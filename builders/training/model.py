"""The Llama decoder in plain torch, with parameter names as in the Hugging Face layout.

Written out rather than taken from a model library, so that training needs torch alone and the
exported file is the state dict itself. Rotary embedding in the "rotate half" form, grouped-query
attention, RMSNorm before each half, SwiGLU (Touvron et al. 2023, "LLaMA"; Ainslie et al. 2023,
"GQA").
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from builders.training.recipe import ModelShape


class GrowingCache:
    """One layer's keys and values of a generation, [batch, key_value_heads, tokens, head_dim]."""

    def __init__(self) -> None:
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    @property
    def tokens(self) -> int:
        """Positions held so far."""
        return 0 if self._keys is None else self._keys.shape[2]

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add new positions and return all of them."""
        if self._keys is not None and self._values is not None:
            keys = torch.cat((self._keys, keys), dim=2)
            values = torch.cat((self._values, values), dim=2)
        self._keys, self._values = keys, values
        return keys, values


def rotary_tables(shape: ModelShape) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's angles, each [positions, head_dim], float32."""
    half = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    frequencies = shape.rope_theta**-half
    angles = torch.outer(torch.arange(shape.max_position_embeddings).float(), frequencies)
    doubled = torch.cat((angles, angles), dim=1)
    return doubled.cos(), doubled.sin()


def rotate(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Apply the rotary embedding to [batch, heads, tokens, head_dim]."""
    first, second = states.chunk(2, dim=-1)
    return states * cosine + torch.cat((-second, first), dim=-1) * sine


class Attention(nn.Module):
    """Causal grouped-query attention."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        query_width = shape.num_attention_heads * shape.head_dim
        key_width = shape.num_key_value_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, query_width, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, key_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, key_width, bias=False)
        self.o_proj = nn.Linear(query_width, shape.hidden_size, bias=False)

    def _heads(self, states: Tensor, heads: int) -> Tensor:
        batch, tokens, _ = states.shape
        return states.view(batch, tokens, heads, self.shape.head_dim).transpose(1, 2)

    def forward(
        self, states: Tensor, rotary: tuple[Tensor, Tensor], cache: GrowingCache | None
    ) -> Tensor:
        """[batch, tokens, hidden_size] to the same."""
        shape = self.shape
        queries = rotate(self._heads(self.q_proj(states), shape.num_attention_heads), *rotary)
        keys = rotate(self._heads(self.k_proj(states), shape.num_key_value_heads), *rotary)
        values = self._heads(self.v_proj(states), shape.num_key_value_heads)
        if cache is not None:
            keys, values = cache.extend(keys, values)
        groups = shape.num_attention_heads // shape.num_key_value_heads
        mixed = functional.scaled_dot_product_attention(
            queries,
            keys.repeat_interleave(groups, dim=1),
            values.repeat_interleave(groups, dim=1),
            is_causal=queries.shape[2] > 1,
        )
        output: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return output


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        """[batch, tokens, hidden_size] to the same."""
        gated = functional.silu(self.gate_proj(states)) * self.up_proj(states)
        output: Tensor = self.down_proj(gated)
        return output


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.mlp = FeedForward(shape)

    def forward(
        self, states: Tensor, rotary: tuple[Tensor, Tensor], cache: GrowingCache | None
    ) -> Tensor:
        """[batch, tokens, hidden_size] to the same."""
        states = states + self.self_attn(self.input_layernorm(states), rotary, cache)
        output: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return output


class Decoder(nn.Module):
    """The stack below the output projection; named `model` in the Hugging Face layout."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)


class Llama(nn.Module):
    """Token ids [batch, tokens] to hidden states; the output projection is the embedding."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape)
        cosine, sine = rotary_tables(shape)
        self._cosine: Tensor
        self._sine: Tensor
        self.register_buffer("_cosine", cosine, persistent=False)
        self.register_buffer("_sine", sine, persistent=False)
        self.apply(self._initialise)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.shape.initializer_range)

    def hidden(self, ids: Tensor, caches: list[GrowingCache] | None = None) -> Tensor:
        """Final hidden states, [batch, tokens, hidden_size]."""
        start = caches[0].tokens if caches else 0
        window = slice(start, start + ids.shape[1])
        states = self.model.embed_tokens(ids)
        rotary = (self._cosine[window].to(states.dtype), self._sine[window].to(states.dtype))
        for index, layer in enumerate(self.model.layers):
            states = layer(states, rotary, caches[index] if caches else None)
        output: Tensor = self.model.norm(states)
        return output

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary for hidden states, [..., vocab_size]."""
        return functional.linear(hidden, self.model.embed_tokens.weight)

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Summed cross-entropy in nats of `targets` [batch, tokens], as a scalar."""
        scores = self.logits(self.hidden(ids)).flatten(0, 1).float()
        return functional.cross_entropy(scores, targets.flatten(), reduction="sum")
