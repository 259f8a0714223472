"""What a bench hands back: tables for people, one JSON object for machines, and what was held."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table


def quantile(values: Sequence[float], share: float) -> float:
    """The value at `share` (0 to 1) of the sorted values, nearest rank; NaN without values."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class Goal:
    """One claim: what is held, its limit in words, what was measured, and whether it was met."""

    claim: str
    limit: str
    measured: str
    met: bool


@dataclass
class Report:
    """The outcome of a bench; `figures` is the JSON object, made of plain numbers and strings."""

    bench: str
    seed: int
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Whether every goal was met."""
        return all(goal.met for goal in self.goals)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Adds a table; numbers are right-aligned, floats shown with two decimals."""
        table = Table(title=title, title_justify="left")
        for number, column in enumerate(columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in rows:
            table.add_row(
                *(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row)
            )
        self.tables.append(table)

    def goal(self, claim: str, limit: str, measured: str, *, met: bool) -> None:
        """Adds a claim with its verdict."""
        self.goals.append(Goal(claim, limit, measured, met))

    def show(self, out: TextIO) -> None:
        """Prints tables, goals and notes, and as the last line the JSON object."""
        console = Console(file=out, width=None if out.isatty() else 110, highlight=False)
        for table in self.tables:
            console.print(table)
        if self.goals:
            verdicts = Table(title="Held", title_justify="left")
            for column in ("claim", "limit", "measured", ""):
                verdicts.add_column(column)
            for goal in self.goals:
                verdicts.add_row(
                    goal.claim, goal.limit, goal.measured, "met" if goal.met else "NOT MET"
                )
            console.print(verdicts)
        for note in self.notes:
            console.print(note)
        summary = {
            "bench": self.bench,
            "seed": self.seed,
            "met": self.met,
            "goals": [vars(goal) for goal in self.goals],
            **self.figures,
        }
        out.write(json.dumps(summary, separators=(",", ":")) + "\n")
        out.flush()
