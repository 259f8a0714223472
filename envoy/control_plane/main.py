"""The control plane process: `python -m control_plane.main --topology FILE`.

It serves ADS on the topology's `control_plane` address, a status page on `control_plane_status`
where given, follows the file, and ends cleanly on SIGTERM or SIGINT. Envoy goes on serving
without it; only changes wait.
"""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Final

from . import server, status
from .server import DiscoveryService, Publisher
from .topology import TopologyError
from .topology_source import TopologyFile

log = logging.getLogger("control_plane")

# Reading a few kilobytes ten times a second costs nothing, sees every way of replacing a file
# (rename, write in place, a changed symbolic link, a network mount) and makes a drain prompt.
_POLL_INTERVAL_S: Final = 0.1
_STOP_GRACE_S: Final = 0.5


async def _follow(source: TopologyFile, publisher: Publisher) -> None:
    while True:
        await asyncio.sleep(_POLL_INTERVAL_S)
        snapshot = source.poll()
        if snapshot is not None:
            publisher.publish(snapshot)


async def run(path: Path) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises TopologyError or OSError where the topology cannot be used at the start or an address
    cannot be bound.
    """
    source = TopologyFile(path)
    service = DiscoveryService(Publisher(source.snapshot))
    page = _open_page(source, service)
    ads = await server.start(service, source.topology.control_plane)
    log.info("snapshot %s on %s", source.snapshot.version, source.topology.control_plane)
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    try:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(_follow(source, service.publisher))
            if page is not None:
                tasks.create_task(page.serve())
            await stop.wait()
            following.cancel()
            if page is not None:
                page.should_exit = True
    finally:
        await ads.stop(_STOP_GRACE_S)


def _open_page(source: TopologyFile, service: DiscoveryService) -> status.StatusServer | None:
    address = source.topology.control_plane_status
    if address is None:
        return None
    return status.StatusServer(status.make_app(source, service), status.bind(address))


def main() -> int:
    """Parse the command line and run; 2 where the topology or an address is unusable."""
    parser = argparse.ArgumentParser(prog="control_plane", description=__doc__)
    parser.add_argument("--topology", type=Path, required=True, help="the topology document")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(run(arguments.topology))
    except (TopologyError, OSError) as error:
        print(f"control plane cannot start: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
