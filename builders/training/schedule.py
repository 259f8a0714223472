"""How far a run is, and what follows from it: rates and row lengths. Pure.

Progress is a share of the run, by steps or by time. By time, only time in which the run worked
counts: a run that was paused (SIGSTOP, a suspended machine) goes on where it was.
"""

from dataclasses import dataclass

from builders.training.recipe import Optimisation

PAUSE_GAP_S = 20.0  # two ticks further apart than this were a pause, not work


@dataclass
class WorkClock:
    """Adds up the time between ticks, leaving out pauses. Seconds."""

    worked_s: float = 0.0
    last_tick_s: float | None = None

    def tick(self, now_s: float) -> float:
        """Count the time since the last tick, and return the sum."""
        if self.last_tick_s is not None:
            gap = now_s - self.last_tick_s
            self.worked_s += gap if gap <= PAUSE_GAP_S else 0.0
        self.last_tick_s = now_s
        return self.worked_s


@dataclass(frozen=True)
class Budget:
    """What ends the run: exactly one of steps or time. A deadline shortens a time budget."""

    steps: int | None = None
    work_s: float | None = None
    finish_at_s: float | None = None  # epoch seconds

    def progress(self, step: int, worked_s: float, now_epoch_s: float) -> float:
        """Share of the run that is done, 0 to 1."""
        if self.steps is not None:
            return min(1.0, step / self.steps)
        left = [self.work_s - worked_s] if self.work_s is not None else []
        if self.finish_at_s is not None:
            left.append(self.finish_at_s - now_epoch_s)
        remaining = max(0.0, min(left))
        return worked_s / (worked_s + remaining) if remaining else 1.0


def rate_scale(plan: Optimisation, step: int, progress: float) -> float:
    """Factor on every learning rate: warm-up by steps, constant, then linear to the final scale."""
    scale = plan.peak_scale
    if progress > plan.decay_from:
        past = (progress - plan.decay_from) / (1.0 - plan.decay_from)
        scale *= 1.0 - past * (1.0 - plan.final_scale)
    return scale * min(1.0, (step + 1) / plan.warmup_steps)


def row_tokens(plan: Optimisation, progress: float) -> int:
    """Row length at this progress: short rows first, long ones for the rest."""
    return plan.short_row_tokens if progress < plan.long_rows_from else plan.long_row_tokens
