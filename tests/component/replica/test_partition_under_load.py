"""Equal prompts of many partitions at once, and of a partition whose prefixes are evicted."""

import random
from collections.abc import Iterator

import pytest

from orchestrator.session import SessionHasher
from scripts.benches.partitions import OTHERS, salts_of
from tests.contract.replica.engine_client import GrpcTarget, tensors_of
from tests.contract.replica.triton_server import reference_engine, running_triton

pytestmark = pytest.mark.component

ROUNDS = 20


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcTarget]:
    folder = tmp_path_factory.mktemp("server")
    engine = reference_engine(folder / "reference")
    # A pool of some 75 blocks, so that the rounds overwrite each other's.
    with running_triton(folder, engine, WARMLINE_CACHE_BYTES=str(8 * 2**20)) as server:
        replica = GrpcTarget(server.grpc_port, server.status_port)
        yield replica
        replica.channel.close()


def test_equal_prompts_at_once_reuse_nothing_while_the_pool_overflows(target: GrpcTarget) -> None:
    rng = random.Random(1)
    for _ in range(ROUNDS):
        hasher = SessionHasher(rng.randbytes(32))
        salts = {salt for what in OTHERS for salt in salts_of(hasher, what)}
        prompt = [rng.randrange(100, 8_000) for _ in range(rng.randrange(60, 320))]
        calls = [
            target.start(tensors_of(input_ids=prompt, request_output_len=3, cache_salt=salt))
            for salt in sorted(salts)
        ]
        cached = [list(call.responses())[-1].values["cached_tokens"] for call in calls]
        assert len(salts) == 6
        assert cached == [0] * len(salts)
    assert target.load()["cache_evictions_total"] > 0
