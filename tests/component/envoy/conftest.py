"""Fixtures: a stack per test, so that no test sees another's topology."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.component.envoy.harness import EnvoyStack, envoy_stack


@pytest_asyncio.fixture
async def stack(tmp_path: Path) -> AsyncIterator[EnvoyStack]:
    """Two replicas, one worker, the pools `fast` and `large` over both replicas."""
    async with envoy_stack(tmp_path, replicas=2, workers=1) as running:
        yield running
