"""Reads and writes the Hugging Face layout: config.json, tokenizer files, fp16 safetensors."""

import json
import shutil
from dataclasses import asdict, fields
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from builders.training.errors import TrainingError
from builders.training.files import replace_file
from builders.training.model import Llama
from builders.training.recipe import ModelShape

WEIGHTS = "model.safetensors"
COPIED = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def read_shape(folder: Path) -> ModelShape:
    """The model's shape from a folder's config.json; refuses what the decoder cannot do."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingError(f"no readable config.json in {folder}; name a model folder") from error
    if config.get("model_type") != "llama" or not config.get("tie_word_embeddings"):
        raise TrainingError(
            f"{folder} holds a {config.get('model_type')!r} model; training goes on only from a "
            "Llama model with tied embeddings"
        )
    named = {field.name for field in fields(ModelShape)}
    rope = config.get("rope_parameters", {})
    values = {key: value for key, value in {**config, **rope}.items() if key in named}
    return ModelShape(**values)


def load_model(folder: Path) -> Llama:
    """The model of a folder, in float32."""
    model = Llama(read_shape(folder))
    try:
        weights = load_file(folder / WEIGHTS)
        model.load_state_dict({name: weight.float() for name, weight in weights.items()})
    except (OSError, RuntimeError) as error:
        raise TrainingError(f"{folder / WEIGHTS} does not fit its config.json: {error}") from error
    return model


def config_of(shape: ModelShape) -> dict[str, object]:
    """A config.json for the shape."""
    values = asdict(shape)
    theta = values.pop("rope_theta")
    return values | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float16",
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "pretraining_tp": 1,
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 4,
        "use_cache": True,
    }


def export(model: Llama, source: Path, destination: Path) -> None:
    """Write the model to `destination`; tokenizer files are copied from `source`.

    The weights come last, so that a folder with weights is complete.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        if (source / name).is_file() and source.resolve() != destination.resolve():
            shutil.copyfile(source / name, destination / name)
    config = json.dumps(config_of(model.shape), indent=2, sort_keys=True) + "\n"
    replace_file(destination / "config.json", config.encode())
    weights = {
        name: weight.detach().to(torch.float16).contiguous()
        for name, weight in model.state_dict().items()
    }
    replace_file(destination / WEIGHTS, save(weights, metadata={"format": "pt"}))
