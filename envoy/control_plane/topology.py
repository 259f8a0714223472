"""The topology document: which processes make up the fleet and where they listen.

Owns parsing. The rule: what comes out of `parse_topology` is complete and free of contradictions,
so nothing after it needs to ask whether a slot exists or an address is used twice.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

BYTES_MAX = 1024 * 1024

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
# Envoy sums the weights of a locality in 32 bits; 1,024 replicas at this limit stay far below.
Weight = Annotated[int, msgspec.Meta(ge=1, le=1000)]
# Envoy takes the factor in whole percent and refuses less than 100.
BalanceFactor = Annotated[float, msgspec.Meta(ge=1.0, le=100.0)]
InFlight = Annotated[float, msgspec.Meta(ge=0.0, le=65_536.0)]
Percent = Annotated[int, msgspec.Meta(ge=1, le=100)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)]
SlotState = Literal["serving", "draining"]
# How a session finds its slot; see `placement`.
Placement = Literal["maglev", "ring_hash", "round_robin"]


class TopologyError(ValueError):
    """The topology document cannot be used; the message says what, the limit and what was found."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the document's types: immutable, unknown keys refused."""


class Address(Strict, frozen=True):
    """An IP address and a port. Host names are not taken: resolving belongs to who writes this."""

    address: str
    port: Port

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


class Worker(Strict, frozen=True):
    """One orchestrator process, an endpoint of the cluster `orchestrator`."""

    name: Name
    address: str
    port: Port


class Replica(Strict, frozen=True):
    """One Triton process. `slot` is its place and outlives the process."""

    slot: Name
    address: str
    port: Port
    status_port: Port
    state: SlotState = "serving"
    weight: Weight = 100


class Pool(Strict, frozen=True):
    """A named set of slots; the orchestrator picks it by the header `x-warmline-pool`.

    A drain must leave `floor` serving replicas. `hash_balance_factor`, where given, is this pool's
    whatever the topology's says.
    """

    name: Name
    slots: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=1024)]
    floor: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 1
    hash_balance_factor: BalanceFactor | None = None


class LoadBound(Strict, frozen=True):
    """A bounded-load factor that follows the measured load; see `load_bound`.

    `quiet` holds up to `quiet_below` requests in flight per replica and Envoy, `busy` from
    `busy_above` on.
    """

    quiet: BalanceFactor = 2.0
    busy: BalanceFactor = 1.25
    quiet_below: InFlight = 16.0
    busy_above: InFlight = 40.0


class Ramp(Strict, frozen=True):
    """How an added or returned slot gets its weight: see `ramp`."""

    start_percent: Percent = 10
    duration_s: Seconds = 300.0
    steps: Annotated[int, msgspec.Meta(ge=1, le=99)] = 9


class DrainLimits(Strict, frozen=True):
    """What a drain may do unless it is forced, and how long one lasts that names no deadline."""

    deadline_s: Seconds = 60.0
    warm_share_per_minute: Share = 0.25


class Topology(Strict, frozen=True):
    """The whole document, as described in docs/envoy.md."""

    topology_version: Literal[1]
    edge: Address
    inference: Address
    control_plane: Address
    workers: Annotated[tuple[Worker, ...], msgspec.Meta(min_length=1, max_length=256)]
    replicas: Annotated[tuple[Replica, ...], msgspec.Meta(min_length=1, max_length=1024)]
    pools: Annotated[tuple[Pool, ...], msgspec.Meta(min_length=1, max_length=64)]
    hash_balance_factor: BalanceFactor | LoadBound = LoadBound()
    ramp: Ramp = Ramp()
    drain: DrainLimits = DrainLimits()
    placement: Placement = "maglev"
    control_plane_status: Address | None = None


def parse_topology(document: bytes) -> Topology:
    """Parse one YAML document of at most `BYTES_MAX` bytes.

    Raises TopologyError with what is wrong, the limit, the actual value and the next step.
    """
    if len(document) > BYTES_MAX:
        raise TopologyError(
            f"topology is too large: at most {BYTES_MAX} bytes, got {len(document)}; "
            "split the fleet into several topologies"
        )
    raw = _decode_yaml(document)
    try:
        topology = msgspec.convert(raw, Topology)
    except msgspec.ValidationError as error:
        raise TopologyError(_explain(error, raw)) from error
    _check_addresses(topology)
    _check_references(topology)
    _check_load_bound(topology.hash_balance_factor)
    return topology


def _decode_yaml(document: bytes) -> object:
    try:
        raw: object = msgspec.yaml.decode(document)
    except msgspec.DecodeError as error:
        raise TopologyError(f"topology is not YAML: {error}; mend the syntax there") from error
    return raw


def _explain(error: msgspec.ValidationError, raw: object) -> str:
    """Add the value found to msgspec's message, which names the place and the limit only."""
    message = str(error)
    place = re.search(r"`\$(?P<steps>[^`]*)`$", message)
    found = _value_at(raw, place["steps"]) if place else raw
    return f"topology: {message}; got {_short(found)}; correct it as docs/envoy.md describes"


def _value_at(raw: object, steps: str) -> object:
    value = raw
    for key, index in re.findall(r"\.(\w+)|\[(\d+)\]", steps):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and index:
            value = value[int(index)]
    return value


def _short(value: object, characters_max: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= characters_max else text[: characters_max - 3] + "..."


def _check_addresses(topology: Topology) -> None:
    seen: dict[tuple[str, int], str] = {}
    for owner, address, port in _listening(topology):
        host = _ip(owner, address)
        taken_by = seen.setdefault((host, port), owner)
        if taken_by != owner:
            raise TopologyError(
                f"topology: an address may be listed once, but {host}:{port} belongs to "
                f"{taken_by} and to {owner}; give one of them another port"
            )


def _ip(owner: str, address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError as error:
        raise TopologyError(
            f"topology: the address of {owner} must be an IPv4 or IPv6 literal, got {address!r}; "
            "resolve the name first"
        ) from error


def _listening(topology: Topology) -> Iterable[tuple[str, str, int]]:
    for owner in ("edge", "inference", "control_plane", "control_plane_status"):
        place: Address | None = getattr(topology, owner)
        if place is not None:
            yield owner, place.address, place.port
    for worker in topology.workers:
        yield f"worker {worker.name}", worker.address, worker.port
    for replica in topology.replicas:
        yield f"replica {replica.slot}", replica.address, replica.port
        yield f"status of replica {replica.slot}", replica.address, replica.status_port


def _check_references(topology: Topology) -> None:
    slots = [replica.slot for replica in topology.replicas]
    _check_unique("worker name", [worker.name for worker in topology.workers])
    _check_unique("slot", slots)
    _check_unique("pool name", [pool.name for pool in topology.pools])
    for pool in topology.pools:
        _check_unique(f"slot in pool {pool.name}", pool.slots)
        for slot in pool.slots:
            if slot not in slots:
                raise TopologyError(
                    f"topology: pool {pool.name} may name only slots of `replicas` "
                    f"({', '.join(sorted(slots))}), got {slot!r}; add the replica or drop the name"
                )


def _check_load_bound(bound: float | LoadBound) -> None:
    if not isinstance(bound, LoadBound):
        return
    for low, high in (("busy", "quiet"), ("quiet_below", "busy_above")):
        least, most = getattr(bound, low), getattr(bound, high)
        if least >= most:
            raise TopologyError(
                f"topology: hash_balance_factor.{low} must be below its {high}, "
                f"got {least} and {most}; exchange them, or give one number instead of both"
            )


def _check_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TopologyError(
                f"topology: each {what} may occur once, got {name!r} twice; rename one of them"
            )
        seen.add(name)
