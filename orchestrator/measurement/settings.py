"""Settings of the measurement process: one YAML file, frozen, unknown keys refused."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta

from orchestrator.settings import Address, SettingsError


class MeasurementSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the process listens and which folder is its own."""

    settings_version: Annotated[int, Meta(ge=1, le=1)]
    listen: Address
    telemetry_dir: Annotated[str, Meta(min_length=1)]


def read_measurement_settings(path: Path) -> MeasurementSettings:
    """The settings in `path`; raises `SettingsError` saying which key is wrong."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_text("utf-8")), MeasurementSettings)
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror}") from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise SettingsError(f"settings file {path}: {error}") from error
