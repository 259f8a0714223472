"""The two replicas that every case runs against."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.runtime import Replica
from replica.settings import ReplicaSettings
from tests.contract.replica.engine_client import GrpcTarget, InProcessTarget, Target
from tests.contract.replica.triton_server import reference_engine, running_triton

FAKE_MANIFEST = {
    "manifest_version": 1,
    "engine_digest": "sha256:fake",
    "architecture": {"layers": 1, "key_value_heads": 1, "head_dim": 1, "vocabulary_size": 8192},
    "context_tokens": 1536,
    "reserved_salt_tokens": 8,
    "end_ids": [0],
    "control_ids": [0, 1, 2],
    # The fake draws ids evenly, so that a newline comes after some eight tokens.
    "newline_ids": list(range(8, 8192, 8)),
    "files": {"weights": {"path": "model.gguf", "bytes": 0}},
    "decoding": {"block_tokens": 32},
}
LIVE_SEQUENCES_MAX = 8
WAITING_SEQUENCES_MAX = 16


@pytest.fixture(
    scope="session", params=["fake", pytest.param("triton", marks=pytest.mark.component)]
)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp(request.param)
    yield from {"fake": _fake, "triton": _triton}[request.param](folder)


def _fake(folder: Path) -> Iterator[Target]:
    (folder / "manifest.json").write_text(json.dumps(FAKE_MANIFEST))
    (folder / "model.gguf").touch()
    replica = Replica(
        ReplicaSettings(
            engine_dir=folder,
            engine="fake",
            live_sequences_max=LIVE_SEQUENCES_MAX,
            waiting_sequences_max=WAITING_SEQUENCES_MAX,
            fake_step_us=500,
        )
    )
    replica.start()
    yield InProcessTarget(replica)
    replica.stop()


def _triton(folder: Path) -> Iterator[Target]:
    engine = reference_engine(folder / "engine")
    limits = {
        "WARMLINE_LIVE_SEQUENCES_MAX": str(LIVE_SEQUENCES_MAX),
        "WARMLINE_WAITING_SEQUENCES_MAX": str(WAITING_SEQUENCES_MAX),
    }
    with running_triton(folder, engine, **limits) as server:
        target = GrpcTarget(server.grpc_port, server.status_port)
        yield target
        target.channel.close()
