"""The control plane process: `python -m control_plane.main --topology FILE`.

It serves ADS on the topology's `control_plane` address, a status page on `control_plane_status`
where given, follows the file and the replicas' loads, and ends cleanly on SIGTERM or SIGINT.
Envoy goes on serving without it; only changes wait.
"""

import argparse
import asyncio
import logging
import signal
import sys
import time
from pathlib import Path
from typing import Final

from . import server, status
from .fleet import Fleet
from .replica_loads import LoadPoller
from .server import DiscoveryService
from .state_file import StateError, StateFile
from .topology import TopologyError
from .topology_source import TopologyFile

log = logging.getLogger("control_plane")

# Reading a few kilobytes ten times a second costs nothing, sees every way of replacing a file
# (rename, write in place, a changed symbolic link, a network mount) and makes a drain prompt.
_TICK_INTERVAL_S: Final = 0.1
_LOOK_INTERVAL_S: Final = 1.0
_STOP_GRACE_S: Final = 0.5


async def _follow(fleet: Fleet, service: DiscoveryService) -> None:
    while True:
        await asyncio.sleep(_TICK_INTERVAL_S)
        fleet.tick(is_accepted=service.is_accepted(), now_s=time.time())


async def _watch(fleet: Fleet, service: DiscoveryService) -> None:
    """Look at the replicas once a second, for as long as it takes."""
    poller = LoadPoller()
    try:
        while True:
            next_look = asyncio.create_task(asyncio.sleep(_LOOK_INTERVAL_S))
            seen = await poller.observe(fleet.topology.replicas)
            fleet.observed(seen, envoys=len(service.nodes), now_s=time.time())
            await next_look
    finally:
        poller.close()


async def run(topology: Path, state: Path) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises TopologyError, StateError or OSError where a file cannot be used at the start or an
    address cannot be bound.
    """
    fleet = Fleet(TopologyFile(topology), StateFile(state), time.time())
    service = DiscoveryService(fleet.publisher)
    page = _open_page(fleet, service)
    ads = await server.start(service, fleet.topology.control_plane)
    log.info("snapshot %s on %s", fleet.publisher.snapshot.version, fleet.topology.control_plane)
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    try:
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(loop(fleet, service)) for loop in (_follow, _watch)]
            if page is not None:
                tasks.create_task(page.serve())
            await stop.wait()
            for loop in loops:
                loop.cancel()
            if page is not None:
                page.should_exit = True
    finally:
        await ads.stop(_STOP_GRACE_S)


def _open_page(fleet: Fleet, service: DiscoveryService) -> status.StatusServer | None:
    address = fleet.topology.control_plane_status
    if address is None:
        return None
    return status.StatusServer(status.make_app(fleet, service), status.bind(address))


def _state_beside(topology: Path) -> Path:
    return topology.with_suffix(".state.json")


def main() -> int:
    """Parse the command line and run; 2 where the topology or an address is unusable."""
    parser = argparse.ArgumentParser(prog="control_plane", description=__doc__)
    parser.add_argument("--topology", type=Path, required=True, help="the topology document")
    parser.add_argument(
        "--state", type=Path, help="where drains and ramps are kept (default: beside the topology)"
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(run(arguments.topology, arguments.state or _state_beside(arguments.topology)))
    except (TopologyError, StateError, OSError) as error:
        print(f"control plane cannot start: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
