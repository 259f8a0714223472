"""The whole training in its smoke size, as a person starts it: also killed, stopped and resumed.

Needs the training environment (requirements/train.in): its interpreter is
var/env/train/bin/python, or what WARMLINE_TRAIN_PYTHON names.
"""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("WARMLINE_TRAIN_PYTHON", ROOT / "var/env/train/bin/python"))
LIMIT_S = 180
STEPS = 40  # enough that a signal sent at an early step arrives long before the last one

pytestmark = [
    pytest.mark.component,
    pytest.mark.skipif(not PYTHON.exists(), reason="there is no training environment"),
]


def command(work_dir: Path, *arguments: str) -> list[str]:
    base = [str(PYTHON), "-W", "ignore", "-m", "builders.train_reference_model", "--smoke"]
    return [*base, "--steps", str(STEPS), "--work-dir", str(work_dir), *arguments]


def finish(work_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(work_dir, *arguments),
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )


def signal_after_step(work_dir: Path, step: int, number: signal.Signals, *arguments: str) -> int:
    """Start a run, send it a signal once it reports the step, and return its exit status."""
    with subprocess.Popen(
        command(work_dir, *arguments), cwd=ROOT, text=True, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(f"step {step},"):
                process.send_signal(number)
                break
        process.stdout.read()
        return process.wait(timeout=LIMIT_S)


def losses(work_dir: Path) -> list[tuple[int, float]]:
    lines = (work_dir / "run" / "loss.jsonl").read_text().splitlines()
    return [(line["step"], line["loss"]) for line in map(json.loads, lines)]


@pytest.fixture
def work_dir(uninterrupted: Path, tmp_path: Path) -> Path:
    """A folder with the corpus of the uninterrupted run, and nothing else."""
    for name in ("corpus.jsonl", "held_out.jsonl"):
        shutil.copy(uninterrupted / name, tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    done = finish(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_smoke_run_learns_exports_and_evaluates(uninterrupted: Path) -> None:
    seen = losses(uninterrupted)
    assert [step for step, _ in seen] == list(range(1, STEPS + 1))
    assert seen[-1][1] < seen[0][1] - 1.0
    assert (uninterrupted / "model" / "model.safetensors").stat().st_size > 500_000
    evaluation = json.loads((uninterrupted / "evaluation.json").read_text())
    assert 5.0 < evaluation["after"]["held_out"]["nats_per_token"] < 9.2


def test_a_killed_run_resumes_to_the_losses_of_an_uninterrupted_one(
    uninterrupted: Path, work_dir: Path
) -> None:
    every_step = ("train", "--checkpoint-minutes", "0")
    status = signal_after_step(work_dir, 5, signal.SIGKILL, *every_step)
    assert status == -signal.SIGKILL
    done = finish(work_dir, *every_step, "--resume")
    assert done.returncode == 0, done.stderr
    assert losses(work_dir) == losses(uninterrupted)


def test_a_run_asked_to_end_leaves_a_checkpoint_and_resumes_to_the_same_losses(
    uninterrupted: Path, work_dir: Path
) -> None:
    assert signal_after_step(work_dir, 4, signal.SIGTERM, "train") == 0
    stopped_at = losses(work_dir)[-1][0]
    assert stopped_at < STEPS
    stored = [path.name for path in (work_dir / "run").glob("step-*.pt")]
    assert stored == [f"step-{stopped_at:07d}.pt"]
    done = finish(work_dir, "train", "--resume")
    assert done.returncode == 0, done.stderr
    assert losses(work_dir) == losses(uninterrupted)


def test_starting_over_an_earlier_run_is_refused_with_the_way_out(uninterrupted: Path) -> None:
    done = finish(uninterrupted, "train")
    assert done.returncode == 1
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr


def test_resuming_with_another_seed_is_refused(uninterrupted: Path) -> None:
    done = finish(uninterrupted, "train", "--resume", "--seed", "2")
    assert done.returncode == 1
    assert "another recipe, seed" in done.stderr
