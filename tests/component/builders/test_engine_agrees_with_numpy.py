"""Engines built from every kind of checkpoint, loaded by openvino-genai and compared with NumPy."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, LlamaFileType, dequantize, quantize
from tokenizers import Tokenizer

from builders.checkpoints import huggingface
from builders.engine_build import build
from builders.engine_plan import REFERENCE_MODEL, BuildRequest
from tests.component.builders.k_quants import pack
from tests.component.builders.numpy_decoder import NumpyDecoder
from tests.unit.builders.tiny_checkpoints import (
    Sizes,
    byte_fallback_document,
    config_of,
    end_of_text,
    random_weights,
    tokenizer_document,
    write_huggingface,
    write_published_gguf,
)

pytestmark = pytest.mark.component

ROOT = Path(__file__).resolve().parents[3]
PROBE = Path(__file__).with_name("engine_probe.py")
NEW_TOKENS = 10
PROBE_LIMIT_S = 240
F16, F32 = GGMLQuantizationType.F16, GGMLQuantizationType.F32
Q8_0, Q5_0 = GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q5_0
Q4_K, Q6_K = GGMLQuantizationType.Q4_K, GGMLQuantizationType.Q6_K


def triton_python() -> Path:
    """The Python that has openvino-genai; the component tests cannot do without it."""
    default = ROOT / "var/env/triton/bin/python"
    python = Path(os.environ.get("WARMLINE_TRITON_PYTHON", default))
    if not python.is_file():
        pytest.fail(f"no Python at {python}: run scripts/test, or set WARMLINE_TRITON_PYTHON")
    return python


def engine_greedy(engine: Path, prompts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
    """The engine's greedy tokens and their log-probabilities, for each prompt."""
    task = {"weights": str(engine / "model.gguf"), "prompts": prompts, "new_tokens": NEW_TOKENS}
    done = subprocess.run(
        [triton_python(), PROBE],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        timeout=PROBE_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    return list(zip(answer["tokens"], answer["logprobs"], strict=True))


def assert_same_tokens(
    engine: Path, oracle: NumpyDecoder, prompts: list[list[int]], tolerance_nats: float
) -> None:
    """Tokens and log-probabilities agree up to the first choice that rounding could turn.

    `tolerance_nats` is what storage and rounding may shift a log-probability by; a choice between
    two tokens closer than twice that is no evidence, and what follows it neither.
    """
    compared = 0
    answers = engine_greedy(engine, prompts)
    for prompt, (tokens, logprobs) in zip(prompts, answers, strict=True):
        expected, expected_logprobs, margins = oracle.greedy(prompt, NEW_TOKENS)
        for place in range(NEW_TOKENS):
            if margins[place] < 2 * tolerance_nats:
                break
            assert tokens[place] == expected[place], f"token {place} of {tokens} {expected}"
            assert logprobs[place] == pytest.approx(expected_logprobs[place], abs=tolerance_nats)
            compared += 1
    assert compared >= NEW_TOKENS, "the prompts decide too little to be evidence"


def reference_prompts() -> list[list[int]]:
    """Four prompts in the reference model's own template."""
    tokenizer = Tokenizer.from_file(str(REFERENCE_MODEL / "tokenizer.json"))
    cases = (
        ("def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"),
        ("import os\nimport sys\n\nfor name in os.", "\n    print(name)\n"),
        ("class A:\n    def __init__(self, x):\n        self.x = ", "\n"),
        ("for i in range(10):\n    if i ", ":\n        continue\n"),
    )

    def ids(text: str) -> list[int]:
        return tokenizer.encode(text).ids

    return [[6, *ids("src/a.py\n"), 3, *ids(after), 1, *ids(before), 2] for before, after in cases]


def random_prompts(count: int = 6, length: int = 40) -> list[list[int]]:
    random = np.random.default_rng(11)
    return random.integers(0, 370, size=(count, length)).tolist()


def test_the_reference_engine_chooses_the_tokens_of_a_numpy_forward_pass(tmp_path: Path) -> None:
    build(BuildRequest(REFERENCE_MODEL, tmp_path / "engine"))
    oracle = NumpyDecoder.of_folder(REFERENCE_MODEL)
    assert_same_tokens(tmp_path / "engine", oracle, reference_prompts(), tolerance_nats=1e-3)


def test_a_wrong_row_order_of_the_rotary_projections_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface, "interleave_rotary_rows", lambda weight, heads: weight)
    build(BuildRequest(REFERENCE_MODEL, tmp_path / "engine"))
    oracle = NumpyDecoder.of_folder(REFERENCE_MODEL)
    with pytest.raises(AssertionError):
        assert_same_tokens(tmp_path / "engine", oracle, reference_prompts(), tolerance_nats=1e-3)


@pytest.mark.parametrize(
    ("family", "dtype", "shards", "tied"),
    [
        ("qwen2", "F32", 1, True),
        ("qwen2", "BF16", 3, False),
        ("llama", "BF16", 2, False),
        ("llama", "F16", 1, True),
    ],
)
def test_a_hugging_face_checkpoint_of_any_float_type_gives_the_tokens_of_its_weights(
    tmp_path: Path, family: str, dtype: str, shards: int, tied: bool
) -> None:
    weights = write_huggingface(tmp_path / "model", family, dtype=dtype, shards=shards, tied=tied)
    build(BuildRequest(tmp_path / "model", tmp_path / "engine"))
    config = json.loads((tmp_path / "model/config.json").read_text())
    oracle = NumpyDecoder(config, weights)
    assert_same_tokens(tmp_path / "engine", oracle, random_prompts(), tolerance_nats=2e-2)


def test_an_engine_with_a_byte_fallback_tokenizer_loads_too(tmp_path: Path) -> None:
    weights = write_huggingface(tmp_path / "model", "llama")
    config = json.loads((tmp_path / "model/config.json").read_text())
    config |= {"eos_token_id": 1, "bos_token_id": 2}
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(json.dumps(byte_fallback_document()))

    request = BuildRequest(tmp_path / "model", tmp_path / "engine", tokenizer=tokenizer)
    manifest = build(request).manifest

    assert manifest["fim"]["family"] == "prefix_first"
    assert (manifest["fim"]["begin_id"], manifest["fim"]["prefix_id"]) == (2, 3)
    assert manifest["end_ids"] == [1, 2, 3, 4, 5, 6]
    oracle = NumpyDecoder(config, weights)
    assert_same_tokens(tmp_path / "engine", oracle, random_prompts(), tolerance_nats=2e-2)


def packed(name: str, weight: np.ndarray, mixture: str) -> tuple[np.ndarray, GGMLQuantizationType]:
    """A tensor in the kind that a published file of this mixture has it in."""
    if weight.ndim == 1 or mixture == "F32":
        return weight, F32
    if mixture == "Q4_K_M":
        six_bits = "embed_tokens" in name or "v_proj" in name
        kind = Q6_K if six_bits else Q4_K
        # Rows that blocks of 256 do not divide: the published fall-back.
        kind = kind if weight.shape[1] % 256 == 0 else Q5_0
        return (pack(weight, kind) if kind in {Q4_K, Q6_K} else quantize(weight, kind)), kind
    kind = GGMLQuantizationType[mixture]
    return quantize(weight, kind), kind


@pytest.mark.parametrize(
    ("mixture", "file_type", "tolerance_nats"),
    [
        ("F16", LlamaFileType.MOSTLY_F16, 1e-2),
        ("F32", LlamaFileType.ALL_F32, 2e-2),
        ("BF16", LlamaFileType.MOSTLY_BF16, 1e-2),
        ("Q8_0", LlamaFileType.MOSTLY_Q8_0, 1e-2),
        ("Q4_K_M", LlamaFileType.MOSTLY_Q4_K_M, 2e-1),
    ],
)
def test_a_published_gguf_file_gives_the_tokens_of_its_unpacked_weights(
    tmp_path: Path, mixture: str, file_type: LlamaFileType, tolerance_nats: float
) -> None:
    sizes, document = Sizes(), tokenizer_document()
    config = config_of("qwen2", sizes, tied=True, end_id=end_of_text(document))
    weights = random_weights("qwen2", sizes, tied=True)
    tensors = {name: packed(name, weight, mixture) for name, weight in weights.items()}
    write_published_gguf(tmp_path / "tiny.gguf", config, tensors, document, file_type=file_type)

    build(BuildRequest(tmp_path / "tiny.gguf", tmp_path / "engine"))

    unpacked = {name: dequantize(data, kind) for name, (data, kind) in tensors.items()}
    oracle = NumpyDecoder(config, unpacked)
    assert_same_tokens(tmp_path / "engine", oracle, random_prompts(), tolerance_nats)


def test_an_engines_own_gguf_file_is_a_checkpoint_for_the_same_engine(tmp_path: Path) -> None:
    build(BuildRequest(REFERENCE_MODEL, tmp_path / "first"))
    weights = tmp_path / "first/model.gguf"
    tokenizer = tmp_path / "first/tokenizer.json"
    second = BuildRequest(weights, tmp_path / "second", tokenizer=tokenizer)
    build(second)
    assert (tmp_path / "second/model.gguf").read_bytes() == weights.read_bytes()
    assert (tmp_path / "second/tokenizer.json").read_bytes() == tokenizer.read_bytes()
