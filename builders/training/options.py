"""What one invocation decides, and the places that follow from it. Imports no torch.

<work-dir>/archives/        what fetch downloaded
<work-dir>/corpus.jsonl     files to learn from      <work-dir>/held_out.jsonl  files to judge by
<work-dir>/run/             checkpoints and loss.jsonl
<work-dir>/model/           the exported model        <work-dir>/evaluation.json
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from builders.training.recipe import Recipe
from builders.training.schedule import Budget


@dataclass(frozen=True)
class Options:
    """What the command line decides."""

    recipe: Recipe
    work_dir: Path
    model_dir: Path  # tokenizer, and what new weights are compared with
    package_list: Path
    archive_folders: tuple[Path, ...]
    start_from: Path | None
    budget: Budget
    seed: int
    small: bool  # the standard library as the corpus
    offline: bool
    resume: bool
    compiled: bool
    checkpoint_every_s: float

    @property
    def corpus_file(self) -> Path:
        """Files to learn from."""
        return self.work_dir / "corpus.jsonl"

    @property
    def held_out_file(self) -> Path:
        """Files to judge by."""
        return self.work_dir / "held_out.jsonl"

    @property
    def run_folder(self) -> Path:
        """Checkpoints and the loss log."""
        return self.work_dir / "run"

    @property
    def baseline(self) -> Path | None:
        """The model that a new one is compared with; a small run's has no equal."""
        if self.start_from is None and self.small:
            return None
        return self.start_from or self.model_dir

    @property
    def exported(self) -> Path:
        """The new model, in the Hugging Face layout."""
        return self.work_dir / "model"

    @property
    def archives(self) -> Path:
        """Downloaded packages."""
        return self.work_dir / "archives"


def options_of(given: argparse.Namespace, recipe: Recipe, budget: Budget) -> Options:
    """Options from the command line's values."""
    return Options(
        recipe=recipe,
        work_dir=given.work_dir,
        model_dir=given.model,
        package_list=given.packages or given.model / "packages.tsv",
        archive_folders=tuple(given.archives),
        start_from=given.start_from,
        budget=budget,
        seed=given.seed,
        small=given.smoke,
        offline=given.offline,
        resume=given.resume,
        compiled=given.compile,
        checkpoint_every_s=given.checkpoint_minutes * 60,
    )
