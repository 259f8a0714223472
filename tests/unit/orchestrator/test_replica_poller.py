"""The poller over in-memory HTTP and clocks that stand still or are virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import looptime
import msgspec
import pytest

from orchestrator.clock import ManualClock
from orchestrator.load.fleet import Fleet, Standing
from orchestrator.load.poller import Poller
from tests.support.orchestrator import load_report

URLS = {"slot-0": "http://replica-0", "slot-1": "http://replica-1/"}
CONTROL_PLANE = "http://control"
LOAD = msgspec.json.encode(load_report(computed=7))


class World:
    """What answers, by URL; counts what was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, httpx.Response | Exception] = {}
        self.asked: list[str] = []
        self.at_ms: list[float] = []
        self.now_ms: Callable[[], float] = lambda: 0.0
        for host in ("replica-0", "replica-1"):
            self.answers[f"http://{host}/healthz"] = httpx.Response(200)
            self.answers[f"http://{host}/load"] = httpx.Response(200, content=LOAD)

    def says(self, url: str, answer: httpx.Response | Exception) -> None:
        self.answers[url] = answer

    async def _answer(self, asked: httpx.Request) -> httpx.Response:
        url = str(asked.url)
        self.asked.append(url)
        self.at_ms.append(self.now_ms())
        answer = self.answers.get(url, httpx.ConnectError("nobody listens"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))


def poller_of(
    world: World, clock: ManualClock, seen: list[Fleet], *, control_plane: bool = False
) -> Poller:
    return Poller(
        URLS,
        world.http(),
        clock,
        control_plane_url=CONTROL_PLANE if control_plane else None,
        on_fleet=lambda fleet, now_ms: seen.append(fleet),
    )


async def test_a_reading_gives_a_new_snapshot_and_tells_of_it() -> None:
    world, clock, seen = World(), ManualClock(5.0), list[Fleet]()
    poller = poller_of(world, clock, seen)
    await poller.ask("slot-0")
    slot = poller.fleet.slots["slot-0"]
    assert slot.load == load_report(computed=7)
    assert (slot.asked_ms, slot.reported_ms, slot.trouble) == (5.0, 5.0, "")
    assert seen == [poller.fleet]
    assert poller.fleet.slots["slot-1"].trouble == "not asked yet"


@pytest.mark.parametrize(
    ("url", "answer", "trouble", "standing"),
    [
        ("/healthz", httpx.Response(503), "status 503", Standing.GONE),
        ("/healthz", httpx.ConnectError("x"), "ConnectError", Standing.GONE),
        ("/healthz", httpx.ReadTimeout("x"), "ReadTimeout", Standing.LIVE),
        ("/load", httpx.ReadError("x"), "ReadError", Standing.LIVE),
        ("/load", httpx.Response(200, content=b"{}"), "its /load cannot be read", Standing.LIVE),
        ("/load", httpx.Response(200, content=b"\xff"), "its /load cannot be read", Standing.LIVE),
    ],
)
async def test_each_kind_of_trouble_is_told_apart(
    url: str, answer: httpx.Response | Exception, trouble: str, standing: Standing
) -> None:
    """Silence leaves a slot live until it has lasted; a refusal counts at once."""
    world, clock = World(), ManualClock()
    poller = poller_of(world, clock, [])
    await poller.ask("slot-0")
    world.says(f"http://replica-0{url}", answer)
    clock.advance(1_000)
    await poller.ask("slot-0")
    slot = poller.fleet.slots["slot-0"]
    assert (slot.trouble, slot.standing(clock.now_ms())) == (trouble, standing)


async def test_a_silent_replica_becomes_full_and_then_gone_by_the_clock_alone() -> None:
    world, clock = World(), ManualClock()
    poller = poller_of(world, clock, [])
    await poller.ask("slot-0")
    world.says("http://replica-0/healthz", httpx.ReadTimeout("x"))
    standings = []
    for _ in range(12):
        clock.advance(1_000)
        await poller.ask("slot-0")
        standings.append(poller.fleet.slots["slot-0"].standing(clock.now_ms()))
    assert standings == [Standing.LIVE] * 3 + [Standing.FULL] * 7 + [Standing.GONE] * 2


async def test_the_control_planes_states_and_weights_are_read() -> None:
    world = World()
    slots = [
        {"slot": "slot-0", "state": "draining", "weight": 100, "ready": None, "pools": ["fast"]},
        {"slot": "slot-1", "state": "serving", "weight": 10, "ready": True, "pools": ["fast"]},
    ]
    body = {"published_version": "v", "slots": slots, "nodes": []}
    world.says(f"{CONTROL_PLANE}/status", httpx.Response(200, json=body))
    poller = poller_of(world, ManualClock(), [], control_plane=True)
    await poller.ask_control_plane()
    zero, one = poller.fleet.slots["slot-0"], poller.fleet.slots["slot-1"]
    assert (zero.is_drained, one.is_drained) == (True, False)
    assert one.published is not None
    assert one.published.weight == 10


@pytest.mark.parametrize(
    "answer", [httpx.ConnectError("x"), httpx.Response(200, json={}), httpx.Response(500)]
)
async def test_without_a_usable_answer_of_the_control_plane_the_last_one_stays_and_it_is_said(
    answer: httpx.Response | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    body = {"slots": [{"slot": "slot-0", "state": "draining", "weight": 100}]}
    world.says(f"{CONTROL_PLANE}/status", httpx.Response(200, json=body))
    poller = poller_of(world, ManualClock(), [], control_plane=True)
    await poller.ask_control_plane()
    before = poller.fleet
    world.says(f"{CONTROL_PLANE}/status", answer)
    await poller.ask_control_plane()
    await poller.ask_control_plane()
    assert poller.fleet is before
    assert len(caplog.records) == 1


class LoopClock:
    """The virtual time of the event loop."""

    def now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def epoch_ms(self) -> int:
        return int(self.now_ms())


def on_virtual_time(work: Callable[[], object]) -> None:
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=1)) as runner:
        runner.run(work())  # type: ignore[arg-type]


def test_every_replica_is_asked_once_a_second_and_no_task_outlives_the_poller() -> None:
    world = World()

    async def work() -> None:
        clock = LoopClock()
        world.now_ms = clock.now_ms
        poller = Poller(URLS, world.http(), clock, on_fleet=lambda fleet, now_ms: None)
        running = asyncio.create_task(poller.run())
        await asyncio.sleep(10.25)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == {asyncio.current_task()}

    on_virtual_time(work)
    asked = [
        [at_ms for url, at_ms in zip(world.asked, world.at_ms, strict=True) if f"{n}/load" in url]
        for n in (0, 1)
    ]
    assert [len(times) for times in asked] == [11, 11]
    assert asked[0][0] == asked[1][0] == pytest.approx(0.0, abs=1.0)
    assert asked[1][1] - asked[0][1] == pytest.approx(500.0, abs=1.0)


def test_a_silent_replica_delays_nobody_elses_reading() -> None:
    world = World()

    async def work() -> None:
        async def hang(asked: httpx.Request) -> httpx.Response:
            if asked.url.host == "replica-0":
                await asyncio.Event().wait()
            return await world._answer(asked)

        http = httpx.AsyncClient(transport=httpx.MockTransport(hang))
        poller = Poller(URLS, http, LoopClock(), on_fleet=lambda fleet, now_ms: None)
        running = asyncio.create_task(poller.run())
        await asyncio.sleep(5.25)
        assert poller.fleet.slots["slot-1"].trouble == ""
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    on_virtual_time(work)
    assert sum("replica-1/load" in url for url in world.asked) >= 5
