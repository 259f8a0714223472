"""The training loop: progress, one optimiser step, a log line, now and then a checkpoint."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from builders.training import checkpoints
from builders.training.batches import BatchSource, Rows
from builders.training.checkpoints import Checkpoint
from builders.training.model import Llama
from builders.training.recipe import Optimisation
from builders.training.schedule import Budget, WorkClock, rate_scale, row_tokens

BASE_RATE = "base_rate"
LossFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Run:
    """The places and limits of one run."""

    folder: Path
    budget: Budget
    checkpoint_every_s: float
    identity: str

    @property
    def log(self) -> Path:
        return self.folder / "loss.jsonl"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `finished` False means that it was asked to stop."""

    step: int
    finished: bool


def optimisers_for(model: Llama, plan: Optimisation) -> list[Optimizer]:
    """Muon for the matrices inside the layers, AdamW for the embedding and the norms.

    Muon: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; torch's
    own implementation, with its default scaling by the square root of rows over columns.
    """
    hidden = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
    inside = {id(weight) for weight in hidden}
    rest = [weight for weight in model.parameters() if id(weight) not in inside]
    muon = Muon(
        hidden,
        lr=plan.muon_rate,
        momentum=plan.muon_momentum,
        weight_decay=plan.muon_weight_decay,
    )
    adamw = AdamW(rest, lr=plan.adamw_rate, betas=plan.adamw_betas, weight_decay=0.0)
    for optimiser in (muon, adamw):
        for group in optimiser.param_groups:
            group[BASE_RATE] = group["lr"]
    return [muon, adamw]


class Trainer:
    """A model with its optimisers; `step` is one update."""

    def __init__(self, model: Llama, plan: Optimisation, compiled: bool = False) -> None:
        self.model = model
        self.plan = plan
        self.optimisers = optimisers_for(model, plan)
        self._loss: LossFunction = torch.compile(self._plain_loss) if compiled else self._plain_loss

    def _plain_loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.model.loss(ids, targets)

    def step(self, micro_batches: Iterable[Rows], scale: float, tick: Callable[[], object]) -> float:
        """One update over all micro-batches; returns the mean loss in nats a token."""
        self.model.train()
        total = 0.0
        for rows in micro_batches:
            loss = self._loss(torch.tensor(rows.inputs), torch.tensor(rows.targets))
            (loss / self.plan.tokens_per_step).backward()
            total += float(loss.detach())
            tick()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.plan.gradient_norm_max)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group[BASE_RATE] * scale
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return total / self.plan.tokens_per_step

    def state(self, step: int, worked_s: float, identity: str) -> Checkpoint:
        optimisers = [optimiser.state_dict() for optimiser in self.optimisers]
        return Checkpoint(step, worked_s, identity, self.model.state_dict(), optimisers)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.model.load_state_dict(checkpoint.model)
        for optimiser, state in zip(self.optimisers, checkpoint.optimisers, strict=True):
            optimiser.load_state_dict(state)


def train(
    trainer: Trainer,
    batches: BatchSource,
    run: Run,
    start: Checkpoint | None,
    should_stop: Callable[[], bool],
    report: Callable[[str], None],
) -> Outcome:
    """Train until the budget is used or `should_stop`; always leaves a checkpoint."""
    step = start.step if start else 0
    clock = WorkClock(worked_s=start.worked_s if start else 0.0)
    if start:
        trainer.restore(start)
    _keep_log_until(run.log, step)
    saved_at_s = clock.worked_s
    clock.tick(time.monotonic())
    progress = run.budget.progress(step, clock.worked_s, time.time())
    while progress < 1.0 and not should_stop():
        scale = rate_scale(trainer.plan, step, progress)
        row = row_tokens(trainer.plan, progress)
        plan = trainer.plan
        rows = batches.micro_batches(step, plan.tokens_per_step, row, plan.micro_batch_tokens)
        loss = trainer.step(rows, scale, lambda: clock.tick(time.monotonic()))
        step += 1
        _log(run.log, step=step, loss=loss, scale=scale, row_tokens=row, worked_s=clock.worked_s)
        report(f"step {step}, {progress:.1%}, loss {loss:.3f}, {clock.worked_s / 60:.1f} min")
        if clock.worked_s - saved_at_s >= run.checkpoint_every_s:
            checkpoints.save(run.folder, trainer.state(step, clock.worked_s, run.identity))
            saved_at_s = clock.worked_s
        progress = run.budget.progress(step, clock.worked_s, time.time())
    checkpoints.save(run.folder, trainer.state(step, clock.worked_s, run.identity))
    return Outcome(step, finished=progress >= 1.0)


def _log(path: Path, **values: float) -> None:
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps(values) + "\n")


def _keep_log_until(path: Path, step: int) -> None:
    """Drop lines of steps that the checkpoint does not hold: they will be done again."""
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
