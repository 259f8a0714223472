"""Held-out loss: nats a token and bits a byte on files of packages that were never learnt from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch

from builders.training.corpus import SourceFile
from builders.training.examples import file_header
from builders.training.model import Llama
from builders.training.tokens import PieceTokenizer

SAMPLE_SEED = 20_26  # one sample for every run, so that figures can be compared


@dataclass(frozen=True)
class HeldOutLoss:
    """Over all files together, each up to the model's positions."""

    files: int
    tokens: int
    nats_per_token: float
    bits_per_byte: float


def held_out_sample(files: Sequence[SourceFile], count: int) -> list[SourceFile]:
    """A fixed sample of `count` files, whatever their order in the corpus."""
    ordered = sorted(files, key=lambda file: (file.package, file.path))
    return Random(SAMPLE_SEED).sample(ordered, min(count, len(ordered)))


@torch.inference_mode()
def held_out_loss(
    model: Llama, tokenizer: PieceTokenizer, files: Sequence[SourceFile]
) -> HeldOutLoss:
    """Loss of plain text after its path, in float32."""
    model.eval()
    nats, tokens, size = 0.0, 0, 0
    for file in files:
        header = tokenizer.encode(file_header(file.path))
        body = tokenizer.encode([file.text])[: model.shape.max_position_embeddings - len(header)]
        ids = torch.tensor([header + body])
        scores = model.logits(model.hidden(ids))[0, len(header) - 1 : -1]
        targets = ids[0, len(header) :]
        nats += float(torch.nn.functional.cross_entropy(scores, targets, reduction="sum"))
        tokens += len(body)
        size += len(tokenizer.decode(body).encode())
    return HeldOutLoss(len(files), tokens, nats / tokens, nats / math.log(2) / size)
