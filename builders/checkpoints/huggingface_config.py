"""Turns a Hugging Face `config.json` into an `Architecture`, or says why it cannot be served.

The CPU engine builds its graph from a handful of sizes. A setting that the graph has no place for
is refused here, because ignoring it would give plausible, wrong completions.
"""

from collections.abc import Mapping
from typing import Any

from builders.checkpoints.checkpoint import FAMILIES, Architecture
from builders.refusals import BuildRefusedError

DEFAULT_ROPE_THETA = 10_000.0


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """The sizes in `config`; raises `BuildRefusedError` for a model that cannot be served."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise BuildRefusedError(
            f"The checkpoint's architecture is {family!r} (model_type in config.json).",
            f"the architectures {' and '.join(FAMILIES)}.",
            "choose a checkpoint of one of these, for example Qwen2.5-Coder.",
        )
    _refuse_unsupported_settings(config)
    heads, hidden = _whole(config, "num_attention_heads"), _whole(config, "hidden_size")
    return Architecture(
        family=family,
        layers=_whole(config, "num_hidden_layers"),
        hidden_size=hidden,
        feed_forward_size=_whole(config, "intermediate_size"),
        attention_heads=heads,
        key_value_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        vocabulary_size=_whole(config, "vocab_size"),
        context_tokens=_whole(config, "max_position_embeddings"),
        norm_epsilon=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=_rope_theta(config),
    )


def _whole(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or value < 1:
        raise BuildRefusedError(
            f"config.json has {key} = {value!r}.",
            "a whole number of 1 or more.",
            "use the config.json that was saved with the weights.",
        )
    return value


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rotary settings: `rope_parameters` of transformers 5, else `rope_scaling` before it."""
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def _rope_theta(config: Mapping[str, Any]) -> float:
    return float(config.get("rope_theta") or _rope(config).get("rope_theta") or DEFAULT_ROPE_THETA)


def _partial_rotary_factor(config: Mapping[str, Any]) -> float:
    key = "partial_rotary_factor"
    return float(config.get(key) or _rope(config).get(key) or 1.0)


def _refuse_unsupported_settings(config: Mapping[str, Any]) -> None:
    rope = _rope(config)
    llama = config["model_type"] == "llama"
    # Each row: what is wrong with it, the setting as found, what the engine's graph has.
    checks = (
        (config.get("hidden_act", "silu") != "silu", "hidden_act", "silu"),
        (rope.get("rope_type", rope.get("type", "default")) != "default", "rope scaling", "none"),
        (_partial_rotary_factor(config) != 1.0, "partial_rotary_factor", "1.0"),
        (bool(config.get("use_sliding_window")), "use_sliding_window", "false"),
        (bool(config.get("quantization_config")), "quantization_config", "unquantised weights"),
        (bool(config.get("mlp_bias")), "mlp_bias", "false"),
        (llama and bool(config.get("attention_bias")), "attention_bias", "false for llama"),
    )
    for wrong, setting, supported in checks:
        if wrong:
            found = rope if setting == "rope scaling" else config.get(setting)
            raise BuildRefusedError(
                f"config.json asks for {setting}: {found!r}, which the engine cannot do.",
                f"{setting}: {supported}.",
                "choose a checkpoint without this setting.",
            )
