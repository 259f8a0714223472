"""How much of the prompts a typing session finds in the cache, by recipe, and what that is worth.

The same keys, typed into the same files, go through a stack of their own for each recipe: the
default one, one whose prefix leads, and one that moves what stands in front with each keystroke.
These two are slow, so by default they get the trace's first documents only, and the default
recipe's figures for the same documents stand beside theirs.

A request follows as soon as the one before is answered, because no pause changes what is in the
cache; the keys in between that the editor would not have asked for are decided by the trace's own
clock.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.benches.keystrokes import DEBOUNCE_MS, Kind
from scripts.benches.paths import WIDE_LIMITS
from scripts.benches.replay import Replies, counter, replay
from scripts.benches.report import Report
from scripts.benches.typing_sessions import (
    FUNCTIONS_PER_DOCUMENT,
    TypingSession,
    functions_of,
    typing_sessions,
)
from scripts.stack.api import running_stack

DESCRIPTION = "share of prompt tokens served from cache while functions are typed, by recipe"
DEFAULT, *COMPARED = ("default@1", "prefix-first@1", "volatile@1")
SHARE_MIN = 0.95
FUNCTIONS_MIN = 20
CACHE_MIB = 512
"""Of each replica: room for every session of the trace."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--functions", type=int, default=FUNCTIONS_MIN, help="functions typed")
    parser.add_argument("--debounce-ms", type=float, default=DEBOUNCE_MS, help="of the editor")
    parser.add_argument("--at-once", type=int, default=2, help="developers who type at once")
    parser.add_argument(
        "--compared-functions", type=int, default=4, help="of them, with the compared recipes"
    )
    parser.add_argument("--compared", nargs="*", default=COMPARED, metavar="RECIPE")


@dataclass(frozen=True)
class Outcome:
    """What one recipe made of some functions.

    `tokens` and `snippet_changes` are the workers' own counts, by kind and by reason.
    """

    recipe: str
    functions: int
    replies: Replies
    tokens: dict[str, float]
    snippet_changes: dict[str, float]

    def share(self, kind: str) -> float:
        """Share of prompt tokens of a kind (stable, shared) in percent."""
        return 100 * self.tokens.get(kind, 0) / self.tokens["prompt"]


def measure(
    recipe: str, parts: Sequence[Sequence[TypingSession]], arguments: argparse.Namespace
) -> list[Outcome]:
    """Parts of the trace, one after the other, through a stack of its own; each with all before."""
    outcomes: list[Outcome] = []
    replies, functions = Replies(), 0
    with running_stack(cache_mib=CACHE_MIB, worker_limits=WIDE_LIMITS, recipe=recipe) as stack:
        port = stack.config.edge_port
        for part in parts:
            after = replay(port, part, arguments.debounce_ms, at_once=arguments.at_once)
            replies = replies.joined(asyncio.run(after))
            functions += functions_of(part)
            tokens = counter(stack, "warmline_recipe_tokens_total", "kind")
            changes = counter(stack, "warmline_recipe_snippet_changes_total", "reason")
            outcomes.append(Outcome(recipe, functions, replies, tokens, changes))
    return outcomes


def run(arguments: argparse.Namespace) -> Report:
    """Measures each recipe with the same trace."""
    sessions = typing_sessions(arguments.seed, arguments.functions)
    documents = -(-arguments.compared_functions // FUNCTIONS_PER_DOCUMENT)
    part, rest = sessions[:documents], sessions[documents:]
    ours = measure(DEFAULT, [part, rest] if rest else [part], arguments)
    theirs = [measure(recipe, [part], arguments)[0] for recipe in arguments.compared]
    report = Report("typing-trace", arguments.seed)
    _report_trace(report, sessions, arguments)
    _report_recipes(report, [*reversed(ours), *theirs])
    _report_kinds(report, ours[-1])
    _report_goals(report, ours[-1], [*ours, *theirs])
    return report


def _report_trace(
    report: Report, sessions: Sequence[TypingSession], arguments: argparse.Namespace
) -> None:
    keys: Counter[str] = Counter()
    minutes = 0.0
    for session in sessions:
        moments = list(session.moments())
        keys.update(moment.kind.value for moment in moments)
        minutes += moments[-1].at_ms / 60_000
    functions = functions_of(sessions)
    report.figures["trace"] = {
        "functions": functions,
        "documents": len(sessions),
        "keys": keys.total(),
        "minutes": minutes,
        "debounce_ms": arguments.debounce_ms,
        "at_once": arguments.at_once,
        **{kind.name.lower(): keys[kind.value] for kind in Kind},
    }
    packages = ", ".join(sorted({session.file.path.partition("/")[0] for session in sessions}))
    report.notes.append(
        f"{functions} functions in {len(sessions)} files of {packages}: {keys.total()} keys in "
        f"{minutes:.1f} minutes of typing, {keys[Kind.BACKSPACE.value]} of them backspaces, "
        f"{keys[Kind.JUMPED.value]} jumps; the editor asks after {arguments.debounce_ms:.0f} ms "
        f"without a key. {arguments.at_once} type at once; times in ms."
    )


COLUMNS = (
    *("recipe", "functions", "requests", "cached %", "stable %", "shared %"),
    *("p50", "p95", "computed", "snippets anew"),
)


def _report_recipes(report: Report, outcomes: list[Outcome]) -> None:
    rows = [_row(outcome) for outcome in outcomes]
    report.table("The same trace by recipe (shares of prompt tokens)", COLUMNS, rows)
    for outcome, row in zip(outcomes, rows, strict=True):
        report.figures[f"{outcome.recipe}, {outcome.functions} functions"] = {
            **dict(zip(COLUMNS, row, strict=True)),
            "prompt_tokens": outcome.replies.prompt_tokens,
            "snippet_changes": outcome.snippet_changes,
            "without_figures": outcome.replies.without_figures,
        }
        if outcome.replies.missing:
            report.notes.append(
                f"{outcome.recipe}: {outcome.replies.missing} requests ended without the engine's "
                f"figures and are left out: {outcome.replies.without_figures}."
            )


def _row(outcome: Outcome) -> tuple[object, ...]:
    replies = outcome.replies
    return (
        outcome.recipe,
        outcome.functions,
        len(replies.answered),
        100 * replies.cached_share,
        outcome.share("stable"),
        outcome.share("shared"),
        replies.latency_ms(0.5),
        replies.latency_ms(0.95),
        replies.computed_tokens,
        int(sum(outcome.snippet_changes.values())),
    )


def _report_kinds(report: Report, outcome: Outcome) -> None:
    """What the first recipe's misses come from."""
    columns = ("after", "requests", "cached %", "computed a request", "% of all computed", "p50")
    rows: list[tuple[object, ...]] = []
    figures: dict[str, object] = {}
    for kind in Kind:
        some = outcome.replies.of([kind])
        if not some.answered:
            continue
        computed = some.computed_tokens
        part = 100 * computed / outcome.replies.computed_tokens
        row = (
            len(some.answered),
            100 * some.cached_share,
            computed / len(some.answered),
            part,
            some.latency_ms(0.5),
        )
        rows.append((kind.value, *row))
        figures[kind.name.lower()] = dict(zip(columns[1:], row, strict=True))
    report.table(f"Where {outcome.recipe} computes", columns, rows)
    report.figures["by_kind"] = figures


def _report_goals(report: Report, ours: Outcome, outcomes: list[Outcome]) -> None:
    report.goal(
        "functions typed",
        f">= {FUNCTIONS_MIN}",
        str(ours.functions),
        met=ours.functions >= FUNCTIONS_MIN,
    )
    share = ours.replies.cached_share
    report.goal(
        f"cached share, {ours.recipe}",
        f">= {100 * SHARE_MIN:.0f} %",
        f"{100 * share:.2f} %",
        met=share >= SHARE_MIN,
    )
    missing = sum(outcome.replies.missing for outcome in outcomes)
    report.goal("requests without figures", "0", str(missing), met=missing == 0)
