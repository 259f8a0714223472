"""The measurement process: owns the telemetry folder and says that it is there.

It holds the place of the store that is shipped to: two of them must never run on one folder.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

import uvloop
from fastapi import FastAPI

from orchestrator.measurement.ownership import FolderTakenError, owned
from orchestrator.measurement.settings import read_measurement_settings
from orchestrator.serving import http_server, keep_stopping_clean
from orchestrator.settings import SettingsError


def build_app() -> FastAPI:
    """The application: liveness only."""
    app = FastAPI(title="Warmline measurement", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return app


def main() -> int:
    """Command line: `--settings FILE`; exit status 2 for settings that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m orchestrator.measurement.main", description=__doc__
    )
    parser.add_argument("--settings", type=Path, required=True, help="YAML file of settings")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    keep_stopping_clean()
    try:
        settings = read_measurement_settings(arguments.settings)
        with (
            owned(Path(settings.telemetry_dir)),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(http_server(build_app(), settings.listen).serve())
    except (SettingsError, FolderTakenError, OSError) as error:
        print(f"measurement: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
