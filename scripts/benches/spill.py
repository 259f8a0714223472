"""What bounded load does with a hot key range, and what it does by chance alone.

For each factor, the slots' load under a hot key range (`hot_range`) and the share of requests that
another slot than their home served, beside what Envoy's formula gives when it is simulated
(`bounded_load`). The simulation then says what chance alone does to a fleet of twenty replicas,
which no machine at hand can show.
"""

import argparse
import asyncio
import math
from collections import Counter

from control_plane.load_bound import exact_factor
from control_plane.topology import LoadBound
from scripts.benches.bounded_load import Outcome, Situation, bound, even, simulate, with_hot
from scripts.benches.hot_range import NO_BOUND, REPLICA_VARIABLES, Phase, measure
from scripts.benches.report import Report
from scripts.stack.api import running_stack

DESCRIPTION = "one hot key range at twice the average: load per replica, share that spilled"
SIMULATED_REPLICAS = 20
SIMULATED_IN_FLIGHT = (2, 3, 4, 8, 16, 24, 40, 60)
SIMULATED_FACTORS = (1.25, 1.5, 2.0)
CHANCE_PERCENT_MAX = 3.0
AGREEMENT_POINTS = 5.0
"""How far measured and simulated share may lie apart; a short run scatters by two to three."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this bench."""
    parser.add_argument("--replicas", type=int, default=4, help="fake replicas (default 4)")
    parser.add_argument("--in-flight", type=float, default=12, help="mean a replica (default 12)")
    parser.add_argument("--seconds", type=float, default=30, help="counted a factor (default 30)")
    parser.add_argument(
        "--simulated", type=int, default=40_000, help="requests of one simulation (default 40000)"
    )


def run(arguments: argparse.Namespace) -> Report:
    """Starts a stack of its own, measures, stops it, simulates."""
    with running_stack(
        replicas=arguments.replicas, engine="fake", replica_variables=REPLICA_VARIABLES
    ) as stack:
        slots = [replica.slot for replica in stack.replicas]
        work = measure(
            stack,
            in_flight=arguments.in_flight,
            seconds=arguments.seconds,
            seed=arguments.seed,
        )
        hot, phases = asyncio.run(work)
    report = Report("spill", arguments.seed)
    _report_phases(report, hot, slots, phases, arguments)
    _report_chance(report, arguments)
    return report


def _report_phases(
    report: Report, hot: str, slots: list[str], phases: list[Phase], arguments: argparse.Namespace
) -> None:
    rows = []
    for phase in phases:
        factor = math.inf if phase.published == NO_BOUND else phase.published
        average = sum(map(phase.mean_live, slots)) / len(slots)
        # What was drawn, not what was meant: a short run is some per cent off.
        offered = phase.share_of(hot) * len(slots)
        situation = Situation(with_hot(len(slots), offered), average, factor)
        simulated = simulate(situation, arguments.simulated, arguments.seed)
        rows.append(_phase_row(report, phase, hot, slots, simulated))
        _phase_goals(report, phase, hot, slots, simulated)
    columns = (
        "published factor",
        "requests",
        "in flight a replica",
        "offered to hot",
        "hot slot",
        "busiest other",
        "spilled %",
        "simulated hot",
        "spilled %",
    )
    title = f"{len(slots)} replicas; slots' load as a multiple of the average"
    report.table(title, columns, rows)
    failed = sum(phase.failed for phase in phases)
    report.goal("requests that failed", "0", str(failed), met=failed == 0)


def _phase_row(
    report: Report, phase: Phase, hot: str, slots: list[str], simulated: Outcome
) -> tuple[object, ...]:
    live = {slot: phase.mean_live(slot) for slot in slots}
    average = sum(live.values()) / len(slots)
    others = sorted(live[slot] / average for slot in slots if slot != hot)
    name = "none" if phase.published == NO_BOUND else f"{phase.published:g}"
    simulated_average = sum(simulated.mean_live) / len(slots)
    figures = {
        "requests": len(phase.counted),
        "in_flight_per_replica": average,
        "offered_to_hot_of_average": phase.share_of(hot) * len(slots),
        "hot_of_average": live[hot] / average,
        "others_of_average": others,
        "spilled_percent": 100 * phase.spilled_share,
        "spilled_from": dict(
            Counter(each.home for each in phase.counted if each.replica != each.home)
        ),
        "simulated_hot_of_average": simulated.mean_live[0] / simulated_average,
        "simulated_spilled_percent": 100 * simulated.spilled_share,
    }
    report.figures[f"factor_{name}"] = figures
    return (
        name,
        len(phase.counted),
        average,
        phase.share_of(hot) * len(slots),
        live[hot] / average,
        others[-1],
        100 * phase.spilled_share,
        simulated.mean_live[0] / simulated_average,
        100 * simulated.spilled_share,
    )


def _phase_goals(
    report: Report, phase: Phase, hot: str, slots: list[str], simulated: Outcome
) -> None:
    """The bound is held, and what Envoy does is what its formula says."""
    live = {slot: phase.mean_live(slot) for slot in slots}
    measured, expected = 100 * phase.spilled_share, 100 * simulated.spilled_share
    if phase.published == NO_BOUND:
        report.goal("without a bound nothing spills", "0 %", f"{measured:.1f} %", met=not measured)
        return
    # A slot at its bound still takes a stream: it leaves its home above it.
    most = bound(round(sum(live.values())), phase.published, len(slots)) + 1
    report.goal(
        f"factor {phase.published:g}: mean load of the hot slot",
        f"at most {most}",
        f"{live[hot]:.1f}",
        met=live[hot] <= most,
    )
    report.goal(
        f"factor {phase.published:g}: spilled as simulated",
        f"{expected:.1f} % within {AGREEMENT_POINTS:g} points",
        f"{measured:.1f} %",
        met=abs(measured - expected) <= AGREEMENT_POINTS,
    )


def _report_chance(report: Report, arguments: argparse.Namespace) -> None:
    """Chance alone, for fixed factors and for the one that is published at that load."""
    rows, figures = [], {}
    for in_flight in SIMULATED_IN_FLIGHT:
        published = exact_factor(LoadBound(), in_flight)
        spilled = {
            factor: 100 * simulate(situation, arguments.simulated, arguments.seed).spilled_share
            for factor in {*SIMULATED_FACTORS, published}
            for situation in [Situation(even(SIMULATED_REPLICAS), in_flight, factor)]
        }
        fixed = [spilled[factor] for factor in SIMULATED_FACTORS]
        rows.append((in_flight, *fixed, published, spilled[published]))
        figures[in_flight] = {
            "fixed_percent": dict(zip(SIMULATED_FACTORS, fixed, strict=True)),
            "published_factor": published,
            "published_percent": spilled[published],
        }
    columns = (
        "in flight a replica",
        *(f"% at {factor:g}" for factor in SIMULATED_FACTORS),
        "published",
        "% at it",
    )
    report.table(f"Chance alone, {SIMULATED_REPLICAS} replicas, simulated", columns, rows)
    report.figures["chance"] = figures
    worst = max(row[-1] for row in rows)
    report.goal(
        "chance alone spills, at the factor published for the load",
        f"at most {CHANCE_PERCENT_MAX:g} %",
        f"{worst:.1f} %",
        met=worst <= CHANCE_PERCENT_MAX,
    )
