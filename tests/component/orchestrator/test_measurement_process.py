"""The measurement process as a process: it owns its folder, lives, and goes cleanly."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.orchestrator import ROOT

pytestmark = pytest.mark.component

LIMIT_S = 20.0


def settings_file(folder: Path, name: str) -> tuple[Path, int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    settings = {
        "settings_version": 1,
        "listen": {"address": "127.0.0.1", "port": port},
        "telemetry_dir": str(folder / "telemetry"),
    }
    (folder / name).write_text(yaml.safe_dump(settings))
    return folder / name, port


async def start(settings: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator.measurement.main", "--settings", str(settings)),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )


async def until_it_lives(port: int) -> None:
    async with asyncio.timeout(LIMIT_S), httpx.AsyncClient() as http:
        while True:
            try:
                answer = await http.get(f"http://127.0.0.1:{port}/healthz")
            except httpx.HTTPError:
                await asyncio.sleep(0.02)
            else:
                assert answer.status_code == 200
                return


async def test_it_owns_its_folder_alone_and_gives_it_back(tmp_path: Path) -> None:
    settings, port = settings_file(tmp_path, "one.yaml")
    owner = await start(settings)
    try:
        await until_it_lives(port)
        other, _ = settings_file(tmp_path, "two.yaml")
        second = await start(other)
        _, said = await asyncio.wait_for(second.communicate(), LIMIT_S)
        assert second.returncode == 2
        assert b"owned by another process" in said
        owner.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(owner.wait(), LIMIT_S) == 0
    finally:
        if owner.returncode is None:
            owner.kill()
        await owner.communicate()
    heir = await start(settings)
    try:
        await until_it_lives(port)
    finally:
        heir.terminate()
        await heir.communicate()


async def test_a_crashed_owner_locks_nobody_out(tmp_path: Path) -> None:
    settings, port = settings_file(tmp_path, "one.yaml")
    owner = await start(settings)
    await until_it_lives(port)
    owner.kill()
    await owner.communicate()
    heir = await start(settings)
    try:
        await until_it_lives(port)
    finally:
        heir.terminate()
        await heir.communicate()
