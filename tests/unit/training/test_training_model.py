"""The decoder, its checkpoints and its export. Only an environment with torch runs these."""

from pathlib import Path

import pytest

from builders.training.corpus import SourceFile
from builders.training.errors import TrainingError
from builders.training.recipe import SMOKE
from builders.training.tokens import PieceTokenizer

torch = pytest.importorskip("torch")

from builders.training import checkpoints, evaluation, export  # noqa: E402  # these import torch
from builders.training.checkpoints import Checkpoint  # noqa: E402  # imports torch
from builders.training.loop import Trainer  # noqa: E402  # imports torch
from builders.training.model import GrowingCache, Llama  # noqa: E402  # imports torch

MODEL = Path(__file__).parents[3] / "builders" / "reference_model"


def tiny() -> Llama:
    torch.manual_seed(1)
    return Llama(SMOKE.shape)


def checkpoint(step: int, identity: str = "run") -> Checkpoint:
    return Trainer(tiny(), SMOKE.optimisation).state(step, 1.5, identity)


def test_the_shipped_weights_have_the_size_that_the_card_names() -> None:
    model = export.load_model(MODEL)
    assert sum(weight.numel() for weight in model.parameters()) == 6_524_160


def test_the_shipped_weights_expect_ordinary_code() -> None:
    files = [SourceFile("app", "app/sums.py", "def add(left, right):\n    return left + right\n")]
    tokenizer = PieceTokenizer(MODEL / "tokenizer.json")
    loss = evaluation.held_out_loss(export.load_model(MODEL), tokenizer, files)
    assert loss.nats_per_token < 4.0  # an untrained model has ln 8192 = 9.0
    assert loss.tokens == len(tokenizer.encode([files[0].text]))


def test_a_cache_changes_nothing() -> None:
    model = tiny().eval()
    ids = torch.randint(0, 8_192, (1, 20))
    caches = [GrowingCache() for _ in model.model.layers]
    with torch.inference_mode():
        whole = model.hidden(ids)
        parts = [model.hidden(ids[:, :12], caches)]
        parts += [model.hidden(ids[:, at : at + 1], caches) for at in range(12, 20)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-4, atol=1e-5)


def test_a_later_token_never_changes_an_earlier_state() -> None:
    model = tiny().eval()
    ids = torch.randint(0, 8_192, (1, 20))
    changed = ids.clone()
    changed[0, 10:] += 1
    with torch.inference_mode():
        torch.testing.assert_close(model.hidden(ids)[:, :10], model.hidden(changed)[:, :10])


def test_every_weight_has_exactly_one_optimiser() -> None:
    trainer = Trainer(tiny(), SMOKE.optimisation)
    owned = [
        id(weight)
        for optimiser in trainer.optimisers
        for group in optimiser.param_groups
        for weight in group["params"]
    ]
    assert sorted(owned) == sorted(id(weight) for weight in trainer.model.parameters())
    muon = trainer.optimisers[0].param_groups[0]["params"]
    assert len(muon) == 7 * SMOKE.shape.num_hidden_layers


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, checkpoint(step))
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".pt"] == []
    assert [path.name for path in checkpoints.stored(tmp_path)] == [
        "step-0000002.pt",
        "step-0000003.pt",
    ]


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = checkpoint(5)
    checkpoints.save(tmp_path, written)
    read = checkpoints.load_newest(tmp_path, "run")
    assert read is not None
    assert (read.step, read.worked_s) == (5, 1.5)
    for name, weight in written.model.items():
        assert torch.equal(read.model[name], weight)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, checkpoint(5))
    with pytest.raises(TrainingError, match="another recipe"):
        checkpoints.load_newest(tmp_path, "other run")


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "step-0000007.pt").write_bytes(b"half of")
    with pytest.raises(TrainingError, match=r"step-0000007\.pt"):
        checkpoints.load_newest(tmp_path, "run")


def test_a_half_written_checkpoint_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "step-0000007.pt.partial").write_bytes(b"half of")
    assert checkpoints.load_newest(tmp_path, "run") is None


def test_exported_weights_load_as_the_same_model_in_half_precision(tmp_path: Path) -> None:
    model = tiny()
    export.export(model, MODEL, tmp_path)
    loaded = export.load_model(tmp_path)
    assert loaded.shape == model.shape
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight.half().float())
    assert (tmp_path / "tokenizer.json").read_bytes() == (MODEL / "tokenizer.json").read_bytes()


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen2", "tie_word_embeddings": true}')
    with pytest.raises(TrainingError, match="'qwen2'"):
        export.load_model(tmp_path)
