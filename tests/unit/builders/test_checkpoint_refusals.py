"""What cannot be built is refused with what was found, what is supported, and the next step."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, LlamaFileType

from builders.build_engine import EXIT_REFUSED, main
from builders.checkpoint_card import read_card
from builders.checkpoints.huggingface_config import architecture_from_config
from builders.engine_build import build
from builders.engine_plan import BuildRequest
from builders.refusals import BuildRefusedError
from tests.unit.builders.tiny_checkpoints import (
    Sizes,
    config_of,
    end_of_text,
    random_weights,
    tokenizer_document,
    write_huggingface,
    write_published_gguf,
    write_shards,
)

SMALL = Sizes(layers=1, hidden=32, feed_forward=32, heads=2, key_value_heads=1, head_dim=16)
F16, F32 = GGMLQuantizationType.F16, GGMLQuantizationType.F32


def refusal(folder: Path, **options: Any) -> str:
    """The message with which `folder / "model"` is refused."""
    with pytest.raises(BuildRefusedError) as refused:
        build(BuildRequest(folder / "model", folder / "engine", **options))
    assert not (folder / "engine").exists()
    message = str(refused.value)
    assert "\n  supported: " in message
    assert "\n  next step: " in message
    return message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_huggingface(tmp_path / "model", "llama", sizes=SMALL)
    return tmp_path


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "model/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path)


def test_an_unknown_target_is_refused_with_those_that_exist(folder: Path) -> None:
    message = refusal(folder, target="tpu")
    assert "no engine target 'tpu'" in message
    assert "the targets cpu." in message


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("config.json", "has no config.json"),
        ("tokenizer.json", "has no tokenizer.json"),
        ("model.safetensors", "lacks the weight file model.safetensors"),
    ],
)
def test_a_missing_file_is_refused_by_name(folder: Path, file: str, found: str) -> None:
    (folder / "model" / file).unlink()
    assert found in refusal(folder)


def test_weights_that_can_run_code_are_not_read_and_the_refusal_says_so(folder: Path) -> None:
    (folder / "model/model.safetensors").rename(folder / "model/pytorch_model.bin")
    message = refusal(folder)
    assert "pytorch_model.bin, which is not read because it can run code" in message
    assert "safetensors" in message


def test_a_missing_shard_is_refused_by_name(folder: Path) -> None:
    weights = random_weights("llama", SMALL, tied=True)
    write_shards(folder / "model", weights, shards=3)
    (folder / "model/model-00002-of-00003.safetensors").unlink()
    assert "model-00002-of-00003.safetensors (1 of 3 missing)" in refusal(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_a_file_that_is_not_json_is_refused(folder: Path, file: str) -> None:
    (folder / "model" / file).write_text("<html>")
    assert f"{file} is not JSON" in refusal(folder)


def test_a_cut_weight_file_is_refused(folder: Path) -> None:
    path = folder / "model/model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    assert "not a whole safetensors file" in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"model_type": "gpt_bigcode"}, "architecture is 'gpt_bigcode'"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4}}, "asks for rope scaling"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "asks for rope scaling"),
        ({"hidden_act": "gelu"}, "hidden_act: 'gelu'"),
        ({"attention_bias": True}, "attention_bias: True"),
        ({"mlp_bias": True}, "mlp_bias: True"),
        ({"use_sliding_window": True}, "use_sliding_window: True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5"),
        ({"num_hidden_layers": "six"}, "num_hidden_layers = 'six'"),
    ],
)
def test_a_configuration_that_the_engines_graph_has_no_place_for_is_refused(
    folder: Path, changes: dict[str, Any], found: str
) -> None:
    change_config(folder, **changes)
    assert found in refusal(folder)


def test_sizes_that_older_configurations_leave_out_are_derived() -> None:
    config = config_of("qwen2", Sizes(heads=4, hidden=256), tied=True, end_id=0)
    for key in ("head_dim", "num_key_value_heads", "rope_parameters"):
        del config[key]
    architecture = architecture_from_config(config | {"rope_theta": 1e6, "rope_scaling": None})
    assert (architecture.head_dim, architecture.key_value_heads) == (64, 4)
    assert architecture.rope_theta == 1e6


def test_a_tensor_of_another_shape_than_the_configuration_says_is_refused(folder: Path) -> None:
    change_config(folder, intermediate_size=64)
    message = refusal(folder)
    assert "mlp.gate_proj.weight has the shape [32, 32]" in message
    assert "the shape [64, 32]" in message


def test_a_tensor_that_the_architecture_does_not_use_is_refused(folder: Path) -> None:
    weights = random_weights("llama", SMALL, tied=True)
    weights["model.layers.0.self_attn.q_norm.weight"] = np.ones(16, np.float32)
    write_shards(folder / "model", weights)
    assert "for example model.layers.0.self_attn.q_norm.weight" in refusal(folder)


def test_a_missing_tensor_is_refused_by_name(folder: Path) -> None:
    change_config(folder, tie_word_embeddings=False)
    assert "The tensor lm_head.weight is missing" in refusal(folder)


def test_weights_of_an_integer_type_are_refused(folder: Path) -> None:
    path = folder / "model/model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"F16"', b'"I16"'))
    assert "holds a tensor of type I16" in refusal(folder)


def test_values_that_float16_cannot_hold_are_refused(folder: Path) -> None:
    weights = random_weights("llama", SMALL, tied=True)
    weights["model.layers.0.mlp.up_proj.weight"][3, 5] = 1e6
    write_shards(folder / "model", weights, "F32")
    assert "mlp.up_proj.weight has values that float16 cannot hold" in refusal(folder)


def test_a_tokenizer_without_fill_in_the_middle_markers_is_refused(tmp_path: Path) -> None:
    write_huggingface(tmp_path / "model", sizes=SMALL, markers=("<|endoftext|>", "<|im_end|>"))
    assert "no complete set of fill-in-the-middle markers" in refusal(tmp_path)


def test_a_tokenizer_of_another_model_than_the_weights_is_refused(folder: Path) -> None:
    change_config(folder, vocab_size=SMALL.rows - 400)
    weights = random_weights("llama", SMALL, tied=True)
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"][:-400]
    write_shards(folder / "model", weights)
    assert f"the weights have {SMALL.rows - 400} rows" in refusal(folder)


def test_a_tokenizer_that_is_not_bpe_is_refused(folder: Path) -> None:
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    document = tokenizer_document() | {"model": model, "added_tokens": []}
    (folder / "model/tokenizer.json").write_text(json.dumps(document))
    assert "its model is WordLevel, not BPE" in refusal(folder)


def test_a_tokenizer_option_that_names_nothing_is_refused(folder: Path) -> None:
    assert "There is no tokenizer at" in refusal(folder, tokenizer=folder / "nowhere")


@pytest.mark.parametrize("context_tokens", [0, 100, 4096])
def test_a_context_that_is_too_small_or_longer_than_the_models_is_refused(
    folder: Path, context_tokens: int
) -> None:
    message = refusal(folder, context_tokens=context_tokens)
    assert (
        f"The context would be {context_tokens} tokens; the model was trained for 2048" in message
    )
    assert "512 (with 8 for the salt) to 2048 tokens" in message


def test_a_card_with_an_unknown_key_is_refused(folder: Path) -> None:
    (folder / "model/warmline.json").write_text('{"fim_order": "suffix_first"}')
    message = refusal(folder)
    assert "warmline.json is not valid" in message
    assert "fim_order" in message


def test_a_card_beside_the_checkpoint_names_it_and_its_prompt_order(folder: Path) -> None:
    card = '{"name": "house-model", "fim_family": "suffix_first"}'
    (folder / "model/warmline.json").write_text(card)
    manifest = build(BuildRequest(folder / "model", folder / "engine")).manifest
    assert (manifest["name"], manifest["origin"]) == ("house-model", "local")
    assert manifest["fim"]["family"] == "suffix_first"


def test_a_gguf_files_card_lies_beside_it_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "tiny.warmline.json").write_text('{"name": "tiny"}')
    (tmp_path / "tiny.gguf").touch()
    assert read_card(tmp_path / "tiny.gguf").name == "tiny"


def write_gguf_model(path: Path, **options: Any) -> None:
    """A small Qwen2-type GGUF file; options as those of `write_published_gguf`."""
    document = tokenizer_document()
    config = config_of("qwen2", SMALL, tied=True, end_id=end_of_text(document))
    tensors = {
        name: (weight, F32) if weight.ndim == 1 else (weight.astype(np.float16), F16)
        for name, weight in random_weights("qwen2", SMALL, tied=True).items()
    }
    tensors |= options.pop("more_tensors", {})
    for name in options.pop("without", ()):
        del tensors[name]
    config |= options.pop("config", {})
    write_published_gguf(path, config, tensors, document, **options)


def test_a_gguf_file_as_published_becomes_an_engine_with_everything_found_in_it(
    tmp_path: Path,
) -> None:
    write_gguf_model(tmp_path / "tiny.gguf")
    manifest = build(BuildRequest(tmp_path / "tiny.gguf", tmp_path / "engine")).manifest
    assert (manifest["name"], manifest["origin"]) == ("tiny", "local")
    assert manifest["architecture"]["family"] == "qwen2"
    assert manifest["architecture"]["vocabulary_size"] == SMALL.rows
    assert manifest["fim"]["family"] == "prefix_first"
    assert len(manifest["control_ids"]) == 8


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"config": {"model_type": "starcoder2"}}, "architecture is 'starcoder2'"),
        ({"extra": {"qwen2.rope.scaling.type": "yarn"}}, "rotary scaling 'yarn'"),
        ({"extra": {"qwen2.expert_count": 8}}, "8 experts"),
        ({"extra": {"split.count": 2}}, "2 files"),
        ({"extra": {"qwen2.attention.sliding_window": 512}}, "sliding attention window of 512"),
        ({"file_type": LlamaFileType.MOSTLY_IQ2_S}, "type is 28 (general.file_type)"),
        ({"without": ["model.norm.weight"]}, "output_norm.weight is missing"),
        ({"config": {"intermediate_size": 64}}, "ffn_gate.weight has the shape [32, 32]"),
        ({"pre": "unheard-of"}, "the pre-tokenizer 'unheard-of'"),
        (
            {"more_tensors": {"model.layers.0.self_attn.o_proj.bias": (np.ones(32, "f4"), F32)}},
            "for example blk.0.attn_output.bias",
        ),
    ],
)
def test_a_gguf_file_that_cannot_be_served_is_refused(
    tmp_path: Path, options: dict[str, Any], found: str
) -> None:
    write_gguf_model(tmp_path / "model", **options)
    assert found in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a checkpoint at all"])
def test_a_file_that_is_not_a_whole_gguf_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model").write_bytes(content)
    assert "is not a whole GGUF file" in refusal(tmp_path)


def test_a_cut_gguf_file_is_refused(tmp_path: Path) -> None:
    write_gguf_model(tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    (tmp_path / "model").write_bytes(whole[: len(whole) // 2])
    assert "is not a whole GGUF file" in refusal(tmp_path)


def test_the_command_prints_a_refusal_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--checkpoint", str(tmp_path / "none"), "--output", str(tmp_path / "engine")]
    assert main(arguments) == EXIT_REFUSED
    error = capsys.readouterr().err
    assert error.startswith("The engine was not built. ")
    assert "next step: correct the path" in error


def test_the_command_says_whether_it_built_or_left_the_engine(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--checkpoint", str(folder / "model"), "--output", str(folder / "engine")]
    assert main(arguments) == 0
    assert "built" in capsys.readouterr().out
    assert main([*arguments, "--target", "cpu"]) == 0
    assert "left as it is: it was built from the same input" in capsys.readouterr().out
