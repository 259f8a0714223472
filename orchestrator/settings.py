"""Settings of one orchestrator worker: one YAML file, frozen, unknown keys refused.

Only `orchestrator.main` reads it. Relative paths are taken from the working directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta

from orchestrator.prompt.recipe_documents import DEFAULT_RECIPE

Port = Annotated[int, Meta(ge=1, le=65535)]
InFlight = Annotated[int, Meta(ge=1, le=4096)]
DeadlineMs = Annotated[int, Meta(ge=1, le=60_000)]


class SettingsError(ValueError):
    """The settings file cannot be used; the message says where and why."""


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host and port to listen on or to call."""

    address: str
    port: Port

    @property
    def target(self) -> str:
        """`address:port`."""
        return f"{self.address}:{self.port}"


class PoolSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model pool: the name that Envoy's clusters carry, and the engine it serves."""

    name: Annotated[str, Meta(min_length=1)]
    engine_dir: Annotated[str, Meta(min_length=1)]


class ReplicaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replica's slot and its status listener, which is asked once a second."""

    slot: Annotated[str, Meta(min_length=1)]
    status_url: Annotated[str, Meta(pattern=r"^https?://")]


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most requests in flight: in this worker, and from it into any one pool.

    The deadlines are the longest that a client may ask for, by mode (design: "Deadlines").
    """

    worker_in_flight: InFlight = 128
    pool_in_flight: InFlight = 128
    line_deadline_ms: DeadlineMs = 800
    block_deadline_ms: DeadlineMs = 2000


class SessionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is remembered of editing sessions: how many, and for how long they may be idle.

    After `idle_s` a session's warm prefix is dropped, and it is placed as if for the first time.
    """

    entries_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    idle_s: Annotated[int, Meta(ge=1, le=86_400)] = 600


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one worker needs to know to start."""

    settings_version: Annotated[int, Meta(ge=1, le=1)]
    worker: Annotated[str, Meta(min_length=1)]
    listen: Address
    metrics: Address
    inference: Address
    pools: Annotated[tuple[PoolSettings, ...], Meta(min_length=1)]
    session_secret_file: Annotated[str, Meta(min_length=1)]
    development_tenant: Annotated[str, Meta(min_length=1)]
    recipe: Annotated[str, Meta(min_length=1)] = DEFAULT_RECIPE
    replicas: tuple[ReplicaSettings, ...] = ()
    limits: LimitSettings = LimitSettings()
    sessions: SessionSettings = SessionSettings()
    control_plane_status_url: Annotated[str, Meta(pattern=r"^https?://")] | None = None


def read_settings(path: Path) -> Settings:
    """The settings in `path`; raises `SettingsError` saying which key is wrong."""
    try:
        return parse_settings(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror}") from error
    except SettingsError as error:
        raise SettingsError(f"settings file {path}: {error}") from error


def parse_settings(text: str) -> Settings:
    """The settings in a YAML text; raises `SettingsError` saying which key is wrong."""
    try:
        settings = msgspec.convert(yaml.safe_load(text), Settings)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise SettingsError(str(error)) from error
    names = [pool.name for pool in settings.pools]
    if len(set(names)) != len(names):
        raise SettingsError(f"pools: names must differ, got {names}")
    return settings
