"""`warmline.json` beside a checkpoint: what its weights and tokenizer cannot say themselves.

Its place is the checkpoint folder, or `<file>.warmline.json` beside a GGUF file.
"""

from pathlib import Path

import msgspec

from builders.fim_families import Order
from builders.refusals import BuildRefusedError

CARD_FILE = "warmline.json"


class CheckpointCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model's name and the prompt order that it was trained with; both may be left out."""

    name: str | None = None
    fim_family: Order | None = None


def card_path(checkpoint: Path) -> Path:
    """Where the card of a checkpoint lies, whether there is one or not."""
    if checkpoint.is_dir():
        return checkpoint / CARD_FILE
    return checkpoint.with_name(f"{checkpoint.stem}.{CARD_FILE}")


def read_card(checkpoint: Path) -> CheckpointCard:
    """The card, or an empty one; raises `BuildRefusedError` for a key or value that is unknown."""
    path = card_path(checkpoint)
    if not path.is_file():
        return CheckpointCard()
    try:
        return msgspec.json.decode(path.read_bytes(), type=CheckpointCard)
    except msgspec.MsgspecError as error:
        raise BuildRefusedError(
            f"{path.name} is not valid: {error}.",
            'a JSON object with "name" and "fim_family" (suffix_first or prefix_first).',
            "correct the file, or remove it.",
        ) from error
