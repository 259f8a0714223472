"""The real engine and its cache mirror, in a process of the Triton environment."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contract.replica.triton_server import ROOT, reference_engine, triton_python

pytestmark = pytest.mark.component

HERE = Path(__file__).parent
LIMIT_S = 240


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference_engine(tmp_path_factory.mktemp("engine") / "reference")


def report_of(program: str, *arguments: str) -> dict[str, Any]:
    """The JSON object that a program of this folder prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "model_repository/completion/1")}
    done = subprocess.run(
        [triton_python(), HERE / program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize(
    ("seed", "blocks"), [(1, 28), (2, 28), (3, 400)], ids=["small pool", "another", "large pool"]
)
def test_the_mirror_says_what_the_library_reuses_and_holds(
    engine: Path, seed: int, blocks: int
) -> None:
    report = report_of(
        "cache_oracle.py",
        str(engine / "model.gguf"),
        f"--seed={seed}",
        f"--blocks={blocks}",
        "--requests=150",
        "--prompt-tokens-max=150",
    )
    assert report["mismatches"] == []
    assert report["checked"] > 1_500
    assert report["reused"] > 3_000
    assert blocks == 400 or report["evictions"] > 100


def test_reuse_never_changes_what_is_generated(engine: Path) -> None:
    assert report_of("engine_probe.py", str(engine)) == {
        "cancelled_prefill": [],
        "shared_open_block": [],
        "held_blocks": [],
    }
