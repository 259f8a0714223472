"""Fixtures: `stack` for tests that change the fleet, `shared_stack` for those that only look."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.component.envoy.harness import EnvoyStack, envoy_stack


@pytest_asyncio.fixture
async def stack(tmp_path: Path) -> AsyncIterator[EnvoyStack]:
    """Two replicas, one worker, the pools `fast` and `large` over both replicas."""
    async with envoy_stack(tmp_path, replicas=2, workers=1) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EnvoyStack]:
    """Two replicas, two workers, for all tests of a module; mark them `loop_scope="module"`."""
    async with envoy_stack(tmp_path_factory.mktemp("envoy"), replicas=2, workers=2) as running:
        yield running
