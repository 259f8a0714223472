"""The topology file and what became of its last version.

Owns the reload. The rule: a document that cannot be parsed, built or checked changes nothing but
the reported error; the last good one stays in force.
"""

import hashlib
import logging
from pathlib import Path

from google.protobuf import json_format

from .consistency import InconsistentSnapshotError, check
from .snapshot import build_snapshot
from .topology import Topology, TopologyError, parse_topology

log = logging.getLogger(__name__)


def load(document: bytes) -> Topology:
    """Parse, and try to build; raises TopologyError with the reason where either fails.

    `effective` changes states, weights and factors within their limits only, so what follows from
    a topology that builds does build.
    """
    topology = parse_topology(document)
    try:
        check(build_snapshot(topology))
    except (json_format.ParseError, InconsistentSnapshotError) as error:
        raise TopologyError(f"topology gives no usable snapshot: {error}") from error
    return topology


class TopologyFile:
    """The document on disk. `error` is why its newest version is not in force, or empty."""

    def __init__(self, path: Path) -> None:
        """Read and load at once; raises TopologyError or OSError: there is no last good yet."""
        self._path = path
        document = path.read_bytes()
        self._seen = _digest(document)
        self.topology = load(document)
        self.error = ""
        self.errors_total = 0

    def poll(self) -> bool:
        """Look at the file; whether `topology` is another one now."""
        try:
            document = self._path.read_bytes()
        except OSError as error:
            self._note(f"topology cannot be read: {error}; put the file back", b"")
            return False
        if _digest(document) == self._seen:
            return False
        return self._reload(document)

    def _reload(self, document: bytes) -> bool:
        try:
            topology = load(document)
            _check_own_addresses(self.topology, topology)
        except TopologyError as error:
            self._note(str(error), document)
            return False
        self._seen, self.error = _digest(document), ""
        self.topology = topology
        log.info("a new topology is in force")
        return True

    def _note(self, error: str, document: bytes) -> None:
        """Count and log a fault once per version of the document, not once per poll."""
        self._seen = _digest(document)
        if error == self.error:
            return
        self.error = error
        self.errors_total += 1
        log.error("%s (the last good one stays in force)", error)


def _check_own_addresses(before: Topology, after: Topology) -> None:
    for field in ("control_plane", "control_plane_status"):
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            raise TopologyError(
                f"topology: {field} cannot change while the control plane runs "
                f"({old} to {new}); restart it, and Envoy with a new bootstrap"
            )


def _digest(document: bytes) -> bytes:
    return hashlib.sha256(document).digest()
