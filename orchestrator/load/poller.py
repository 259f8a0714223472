"""Asks the replicas, and the control plane where there is one to ask, once a second. I/O only.

Every slot has a loop of its own, so that a silent replica delays nothing but its own reading, and
the loops are spread over the second, so that many replicas do not all answer in one moment of the
event loop that also serves requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import httpx
import msgspec

from orchestrator.clock import Clock
from orchestrator.load.fleet import (
    POLL_INTERVAL_MS,
    Fleet,
    Heard,
    PublishedSlot,
    Refused,
    ReplicaLoad,
    Silent,
)

_ANSWER_SECONDS_MAX = 1.0

_log = logging.getLogger(__name__)

OnFleet = Callable[[Fleet, float], None]
Look = Callable[[], Awaitable[None]]


class _ControlPlaneStatus(msgspec.Struct, frozen=True):
    """The part of the control plane's `/status` that is read here; the rest is ignored."""

    slots: tuple[PublishedSlot, ...]


class Poller:
    """Owns the newest `fleet`, and tells `on_fleet` of each with the time it was made.

    `status_urls` are the replicas' status listeners by slot. One HTTP client for all, built by the
    caller: building one takes longer than a whole request.
    """

    def __init__(
        self,
        status_urls: Mapping[str, str],
        http: httpx.AsyncClient,
        clock: Clock,
        *,
        control_plane_url: str | None = None,
        on_fleet: OnFleet,
    ) -> None:
        self._status_urls = {slot: url.rstrip("/") for slot, url in status_urls.items()}
        self._http = http
        self._clock = clock
        self._control_plane_url = control_plane_url
        self._control_plane_fault = ""
        self._on_fleet = on_fleet
        self.fleet = Fleet.unknown(
            self._status_urls, follows_control_plane=control_plane_url is not None
        )

    async def run(self) -> None:
        """Polls until it is cancelled; no task of it is left then."""
        looks: list[Look] = [partial(self.ask, slot) for slot in self._status_urls]
        if self._control_plane_url is not None:
            looks.append(self.ask_control_plane)
        async with asyncio.TaskGroup() as group:
            for number, look in enumerate(looks, 1):
                group.create_task(_repeat(look, POLL_INTERVAL_MS * number / len(looks) / 1000))

    async def ask(self, slot: str) -> None:
        """One reading of one replica."""
        asked_ms = self._clock.now_ms()
        heard = await self._heard(self._status_urls[slot])
        now_ms = self._clock.now_ms()
        self._publish(self.fleet.heard(slot, heard, asked_ms, now_ms), now_ms)

    async def ask_control_plane(self) -> None:
        """One reading of the control plane; without a usable answer the last one stays.

        A fault is logged when it begins: while it lasts, drains pass for spills.
        """
        asked_ms = self._clock.now_ms()
        try:
            answer = await self._get(f"{self._control_plane_url}/status")
            status = msgspec.json.decode(answer.content, type=_ControlPlaneStatus)
        except (httpx.HTTPError, msgspec.MsgspecError) as error:
            self._note(type(error).__name__)
            return
        self._note("")
        now_ms = self._clock.now_ms()
        self._publish(self.fleet.published(status.slots, asked_ms, now_ms), now_ms)

    def _note(self, fault: str) -> None:
        if fault and fault != self._control_plane_fault:
            _log.warning("the control plane's status cannot be read: %s", fault)
        self._control_plane_fault = fault

    def _publish(self, fleet: Fleet, now_ms: float) -> None:
        self.fleet = fleet
        self._on_fleet(fleet, now_ms)

    async def _heard(self, status_url: str) -> Heard:
        try:
            health = await self._get(f"{status_url}/healthz")
            if health.status_code != httpx.codes.OK:
                return Refused(f"status {health.status_code}")
            load = await self._get(f"{status_url}/load")
            return msgspec.json.decode(load.content, type=ReplicaLoad)
        except httpx.ConnectError as error:
            return Refused(type(error).__name__)
        except httpx.HTTPError as error:
            return Silent(type(error).__name__)
        except msgspec.MsgspecError:
            return Silent("its /load cannot be read")

    async def _get(self, url: str) -> httpx.Response:
        return await self._http.get(url, timeout=_ANSWER_SECONDS_MAX)


async def _repeat(look: Look, first_pause_s: float) -> None:
    """Looks at once, after `first_pause_s`, and then once in every interval."""
    await look()
    await asyncio.sleep(first_pause_s)
    while True:
        await look()
        await asyncio.sleep(POLL_INTERVAL_MS / 1000)
