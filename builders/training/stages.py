"""The stages of a training run, each a function of the same options; files pass between them."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict

import torch

from builders.training import checkpoints, corpus, evaluation, export, fetch, infilling
from builders.training.batches import BatchSource
from builders.training.errors import TrainingError
from builders.training.examples import FileSampler
from builders.training.files import replace_file
from builders.training.loop import Outcome, Run, Trainer, train
from builders.training.model import Llama
from builders.training.options import Options
from builders.training.packages import read_packages
from builders.training.recipe import HELD_OUT_PACKAGES
from builders.training.tokens import PieceTokenizer

Report = Callable[[str], None]


def fetch_packages(options: Options, report: Report) -> None:
    """Get the archives of all packages, held-out ones included."""
    if options.small:
        report("fetch: nothing to do, the small corpus is the standard library")
        return
    packages = [*read_packages(options.package_list), *HELD_OUT_PACKAGES]
    download = None if options.offline else fetch.pip_download
    fetch.fetch(packages, options.archive_folders, options.archives, download, report)


def build_corpus(options: Options, report: Report) -> None:
    """Filter the archives into the two corpus files."""
    limits = options.recipe.limits
    if options.small:
        built = corpus.build_small(limits)
    else:
        packages = [*read_packages(options.package_list), *HELD_OUT_PACKAGES]
        found = fetch.locate(packages, [*options.archive_folders, options.archives])
        report(f"packages: {found.summary()}")
        built = corpus.build(found.archives, HELD_OUT_PACKAGES, limits, report)
    corpus.write(built.training, options.corpus_file)
    corpus.write(built.held_out, options.held_out_file)
    report(f"corpus: {built.summary()}")


def train_model(options: Options, should_stop: Callable[[], bool], report: Report) -> Outcome:
    """Train to the end of the budget, or until asked to stop."""
    start = None
    run = Run(
        options.run_folder, options.budget, options.checkpoint_every_s, _run_identity(options)
    )
    if options.resume:
        start = checkpoints.load_newest(run.folder, run.identity)
    elif checkpoints.stored(run.folder):
        raise TrainingError(
            f"{run.folder} holds checkpoints of an earlier run; go on with --resume, or give "
            "another --work-dir"
        )
    files = corpus.read(options.corpus_file)
    if not files:
        raise TrainingError(f"{options.corpus_file} is empty; look at the corpus stage's report")
    tokenizer = PieceTokenizer(options.model_dir / "tokenizer.json")
    batches = BatchSource(FileSampler(files), tokenizer, options.recipe.mix, options.seed)
    trainer = Trainer(_first_model(options), options.recipe.optimisation, options.compiled)
    return train(trainer, batches, run, start, should_stop=should_stop, report=report)


def export_model(options: Options, report: Report) -> None:
    """Write the newest checkpoint's weights in the Hugging Face layout."""
    newest = checkpoints.load_newest(options.run_folder, _run_identity(options))
    if newest is None:
        raise TrainingError(f"no checkpoint in {options.run_folder}; run the train stage first")
    model = _first_model(options)
    model.load_state_dict(newest.model)
    export.export(model, options.model_dir, options.exported)
    report(f"exported step {newest.step} to {options.exported}")


def evaluate_models(options: Options, report: Report) -> None:
    """Measure the exported model, and the one that it would replace, on the same files."""
    held_out = corpus.read(options.held_out_file)
    tokenizer = PieceTokenizer(options.model_dir / "tokenizer.json")
    results = {}
    for name, folder in (("before", options.baseline), ("after", options.exported)):
        if folder is not None and (folder / export.WEIGHTS).is_file():
            began_s = time.monotonic()
            results[name] = _evaluate(export.load_model(folder), tokenizer, held_out, options)
            took_s = time.monotonic() - began_s
            report(f"{name}, {folder}, {took_s:.0f} s: {json.dumps(results[name])}")
    if not results:
        raise TrainingError("no weights to evaluate; run the export stage, or name some by --from")
    content = json.dumps(results, indent=2) + "\n"
    replace_file(options.work_dir / "evaluation.json", content.encode())


def _evaluate(
    model: Llama,
    tokenizer: PieceTokenizer,
    held_out: tuple[corpus.SourceFile, ...],
    options: Options,
) -> dict[str, object]:
    plan = options.recipe.evaluation
    loss = evaluation.held_out_loss(
        model, tokenizer, evaluation.held_out_sample(held_out, plan.files)
    )
    cases = infilling.cases(held_out, plan)
    return {
        "held_out": asdict(loss),
        "infilling": asdict(infilling.judge(model, tokenizer, cases, plan)),
    }


def _first_model(options: Options) -> Llama:
    if options.start_from is not None:
        return export.load_model(options.start_from)
    torch.manual_seed(options.seed)
    return Llama(options.recipe.shape)


def _run_identity(options: Options) -> str:
    """What must stay the same for a checkpoint to make sense; the schedule may change."""
    hasher = hashlib.sha256()
    for part in (options.recipe.shape, options.recipe.mix, options.seed):
        hasher.update(repr(part).encode())
    sources = [options.corpus_file]
    if options.start_from is not None:
        sources.append(options.start_from / export.WEIGHTS)
    for source in sources:
        try:
            with source.open("rb") as content:
                hasher.update(hashlib.file_digest(content, "sha256").digest())
        except OSError as error:
            raise TrainingError(f"cannot read {source}: {error.strerror}") from error
    return hasher.hexdigest()
