"""Equal prompts of two tenants, two users and two sessions share nothing in the cache.

Held twice: against the library itself by steps to the first token, exact to one token, and against
a served replica by what it reports. The salts are those that the request plane makes.
"""

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.session import SessionHasher
from scripts.benches.partitions import OTHERS, salts_of
from tests.contract.replica.engine_client import GrpcTarget, tensors_of
from tests.contract.replica.triton_server import (
    ROOT,
    reference_engine,
    running_triton,
    triton_python,
)

pytestmark = pytest.mark.component

PAIRS_OF_EACH = 10
LIMIT_S = 240


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference_engine(tmp_path_factory.mktemp("engine") / "reference")


@pytest.fixture(scope="module")
def target(engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcTarget]:
    with running_triton(tmp_path_factory.mktemp("server"), engine) as server:
        replica = GrpcTarget(server.grpc_port, server.status_port)
        yield replica
        replica.channel.close()


def salt_pairs(what: str) -> list[tuple[bytes, bytes]]:
    """Pairs under different secrets, so that each is new to the cache."""
    rng = random.Random(what)
    return [salts_of(SessionHasher(rng.randbytes(32)), what) for _ in range(PAIRS_OF_EACH)]


def steps_by_pair(engine: Path, pairs: list[tuple[bytes, bytes]]) -> list[dict[str, int]]:
    """What the oracle counts for each pair."""
    done = subprocess.run(
        [triton_python(), Path(__file__).parent / "partition_oracle.py", engine],
        input=json.dumps([[salt.hex() for salt in pair] for pair in pairs]),
        env={**os.environ, "PYTHONPATH": str(ROOT / "model_repository/completion/1")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counted: list[dict[str, int]] = json.loads(done.stdout)
    return counted


def cached_tokens(target: GrpcTarget, prompt: list[int], salt: bytes) -> int:
    tensors = tensors_of(input_ids=prompt, request_output_len=1, cache_salt=salt)
    return list(target.start(tensors).responses())[-1].values["cached_tokens"]


@pytest.mark.parametrize("what", OTHERS)
def test_the_library_computes_every_token_of_an_equal_prompt_under_another_salt(
    engine: Path, what: str
) -> None:
    counted = steps_by_pair(engine, salt_pairs(what))
    assert len(counted) == PAIRS_OF_EACH
    for steps in counted:
        assert steps["steps_cold"] == steps["steps_other"] == steps["steps_all"]
        # The control: the same salt again leaves the last token to compute.
        assert steps["steps_same"] == 1


@pytest.mark.parametrize("what", OTHERS)
def test_a_replica_reuses_no_token_of_an_equal_prompt_under_another_salt(
    target: GrpcTarget, what: str
) -> None:
    rng = random.Random(what)
    for ours, theirs in salt_pairs(what):
        prompt = [rng.randrange(100, 8_000) for _ in range(300)]
        assert cached_tokens(target, prompt, ours) == 0
        assert cached_tokens(target, prompt, theirs) == 0
        assert cached_tokens(target, prompt, ours) == len(prompt) - 1
