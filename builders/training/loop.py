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
        """One line for each step."""
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

    def step(
        self, micro_batches: Iterable[Rows], scale: float, tick: Callable[[], object]
    ) -> float:
        """One update over all micro-batches; returns the mean loss in nats a token."""
        self.model.train()
        total = 0.0
        for rows in micro_batches:
            loss = self._loss(torch.tensor(rows.inputs), torch.tensor(rows.targets))
            torch.autograd.backward(loss / self.plan.tokens_per_step)
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
        """Everything that a later process needs to go on after `step` steps."""
        optimisers = [optimiser.state_dict() for optimiser in self.optimisers]
        return Checkpoint(step, worked_s, identity, self.model.state_dict(), optimisers)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Become what `state` returned."""
        self.model.load_state_dict(checkpoint.model)
        for optimiser, state in zip(self.optimisers, checkpoint.optimisers, strict=True):
            optimiser.load_state_dict(state)


@dataclass
class Position:
    """Where the run stands."""

    step: int
    clock: WorkClock

    def progress(self, budget: Budget) -> float:
        """Share of the budget that is used, 0 to 1."""
        return budget.progress(self.step, self.clock.worked_s, time.time())

    def tick(self) -> None:
        """Tell the clock that work is going on."""
        self.clock.tick(time.monotonic())


def train(
    trainer: Trainer,
    batches: BatchSource,
    run: Run,
    start: Checkpoint | None,
    *,
    should_stop: Callable[[], bool],
    report: Callable[[str], None],
) -> Outcome:
    """Train until the budget is used or `should_stop`; always leaves a checkpoint."""
    at = _begin(trainer, run, start)
    saved_at_s = at.clock.worked_s
    at.tick()
    while (progress := at.progress(run.budget)) < 1.0 and not should_stop():
        line = _step(trainer, batches, at, progress)
        _log(run.log, line)
        minutes = at.clock.worked_s / 60
        report(f"step {at.step}, {progress:.1%}, loss {line['loss']:.3f}, {minutes:.1f} min")
        if at.clock.worked_s - saved_at_s >= run.checkpoint_every_s:
            _save(trainer, run, at)
            saved_at_s = at.clock.worked_s
    _save(trainer, run, at)
    return Outcome(at.step, finished=progress >= 1.0)


def _begin(trainer: Trainer, run: Run, start: Checkpoint | None) -> Position:
    if start is None:
        _keep_log_until(run.log, 0)
        return Position(0, WorkClock())
    trainer.restore(start)
    _keep_log_until(run.log, start.step)
    return Position(start.step, WorkClock(worked_s=start.worked_s))


def _step(
    trainer: Trainer, batches: BatchSource, at: Position, progress: float
) -> dict[str, float]:
    """One update at `at`, which moves on; returns its log line."""
    plan = trainer.plan
    scale = rate_scale(plan, at.step, progress)
    row = row_tokens(plan, progress)
    rows = batches.micro_batches(at.step, plan.tokens_per_step, row, plan.micro_batch_tokens)
    loss = trainer.step(rows, scale, at.tick)
    at.step += 1
    worked_s = round(at.clock.worked_s, 3)
    return {"step": at.step, "loss": loss, "scale": scale, "row_tokens": row, "worked_s": worked_s}


def _save(trainer: Trainer, run: Run, at: Position) -> None:
    checkpoints.save(run.folder, trainer.state(at.step, at.clock.worked_s, run.identity))


def _log(path: Path, values: dict[str, float]) -> None:
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
