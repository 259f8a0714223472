"""Envoy's load bound as a simulation: how many requests leave their home, and who carries them.

Streams arrive as a Poisson process and last for exponential times, so that without a bound each
replica's live streams are Poisson distributed. The bound is the one of Envoy 1.40 for equal weights
(consistent hashing with bounded loads, V. Mirrokni et al., 2016): a stream leaves its home while
that has more than ceil(ceil((all + 1) * factor) / replicas) live streams, and tries the others in a
random order. Envoy draws that order from the key's hash and so always the same for one key; here
it is drawn anew, which makes no difference while no key has many streams at once. Pure and seeded.
"""

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Situation:
    """What is simulated; times are in mean durations of a stream.

    Attributes:
        shares: each replica's share of the requests' homes; their sum is 1.
        in_flight: mean live streams a replica.
        factor: of the bound; infinite means none.
    """

    shares: tuple[float, ...]
    in_flight: float
    factor: float


@dataclass(frozen=True)
class Outcome:
    """Requests after the warm-up, those that left their home, and each replica's mean load."""

    requests: int
    spilled: int
    mean_live: tuple[float, ...]

    @property
    def spilled_share(self) -> float:
        """0 to 1."""
        return self.spilled / self.requests


def even(replicas: int) -> tuple[float, ...]:
    """Shares of replicas whose keys are equally busy."""
    return (1 / replicas,) * replicas


def with_hot(replicas: int, times_average: float) -> tuple[float, ...]:
    """Shares where the first replica's keys get `times_average` the average, the others the rest.

    Raises ValueError when that is more than everything.
    """
    hot = times_average / replicas
    if not 0 <= hot <= 1:
        raise ValueError(f"one of {replicas} replicas cannot get {times_average} times the average")
    return (hot, *(((1 - hot) / (replicas - 1),) * (replicas - 1)))


def bound(live_all: int, factor: float, replicas: int) -> int:
    """Live streams up to which a replica takes another; the factor counts in whole percent."""
    total = -(-(live_all + 1) * round(factor * 100) // 100)
    return max(1, -(-total // replicas))


def place(
    live: Sequence[int], home: int, factor: float, rng: random.Random, live_all: int | None = None
) -> int:
    """The replica that takes a stream whose home is `home`.

    `live_all` is the sum of `live`, for callers that keep it.
    """
    if math.isinf(factor):
        return home
    limit = bound(sum(live) if live_all is None else live_all, factor, len(live))
    if live[home] <= limit:
        return home
    others = [replica for replica in range(len(live)) if replica != home]
    rng.shuffle(others)
    within = (replica for replica in others if live[replica] <= limit)
    return next(within, min([home, *others], key=lambda replica: live[replica]))


@dataclass
class _Fleet:
    """Live streams over time."""

    live: list[int]
    ends: list[tuple[float, int]] = field(default_factory=list)
    live_all: int = 0
    now: float = 0.0
    weighted: list[float] = field(default_factory=list)

    def move_to(self, now: float) -> None:
        """Ends what has ended by then."""
        while self.ends and self.ends[0][0] <= now:
            at, replica = heapq.heappop(self.ends)
            self._count_until(at)
            self.live[replica] -= 1
            self.live_all -= 1
        self._count_until(now)

    def begin(self, replica: int, duration: float) -> None:
        self.live[replica] += 1
        self.live_all += 1
        heapq.heappush(self.ends, (self.now + duration, replica))

    def forget(self) -> None:
        """Starts the means anew."""
        self.weighted = [0.0] * len(self.live)

    def _count_until(self, now: float) -> None:
        for replica, live in enumerate(self.live):
            self.weighted[replica] += live * (now - self.now)
        self.now = now


def simulate(situation: Situation, requests: int, seed: int) -> Outcome:
    """`requests` counted requests after a warm-up of ten mean durations."""
    rng = random.Random(seed)
    replicas = len(situation.shares)
    fleet = _Fleet([0] * replicas, weighted=[0.0] * replicas)
    rate = situation.in_flight * replicas
    warm_up = int(rate * 10) + 1
    homes = rng.choices(range(replicas), situation.shares, k=warm_up + requests)
    spilled, counted_from = 0, 0.0
    for number, home in enumerate(homes):
        if number == warm_up:
            fleet.forget()
            spilled, counted_from = 0, fleet.now
        fleet.move_to(fleet.now + rng.expovariate(rate))
        taken = place(fleet.live, home, situation.factor, rng, fleet.live_all)
        spilled += taken != home
        fleet.begin(taken, rng.expovariate(1.0))
    elapsed = fleet.now - counted_from
    return Outcome(requests, spilled, tuple(each / elapsed for each in fleet.weighted))
