"""The secret's file is followed: a new one is taken, a bad one is not, and requests go on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from orchestrator.generation.fake import FakeInferenceClient, answer_with
from orchestrator.outcome import Outcome
from orchestrator.record.sinks import MemorySink
from orchestrator.session import SessionHasher
from orchestrator.session_secret import SecretFile
from tests.support.orchestrator import SECRET, pipeline, request, tokenizer

NEW_SECRET = bytes(range(100, 140))


def followed(tmp_path: Path) -> tuple[Path, SessionHasher, SecretFile]:
    path, hasher = tmp_path / "key", SessionHasher(SECRET)
    path.write_bytes(SECRET)
    return path, hasher, SecretFile(path, hasher, SECRET)


async def test_requests_go_on_over_a_rotation_and_meet_an_empty_cache(tmp_path: Path) -> None:
    path, hasher, file = followed(tmp_path)
    client, sink = FakeInferenceClient(answer_with(list(tokenizer().encode("a")))), MemorySink()
    served = pipeline(client, sink, hasher=hasher)
    await served.complete(request())
    path.write_bytes(NEW_SECRET)
    file.look()
    file.look()
    await served.complete(request())
    await served.complete(request())
    assert [record.outcome for record in sink.records] == [Outcome.SHOWN_CANDIDATE] * 3
    salts = [asked.cache_salt for asked in client.requests]
    assert salts[0] != salts[1] == salts[2]
    keys = [asked.session_key for asked in client.requests]
    assert keys[0] != keys[1] == keys[2]
    assert sink.records[0].user_key != sink.records[1].user_key


def test_a_content_counts_once_two_readings_agree_on_it(tmp_path: Path) -> None:
    path, hasher, file = followed(tmp_path)
    before = hasher.session_key(request())
    path.write_bytes(NEW_SECRET[:33])
    file.look()
    path.write_bytes(NEW_SECRET)
    file.look()
    assert hasher.session_key(request()) == before
    file.look()
    assert hasher.session_key(request()) == SessionHasher(NEW_SECRET).session_key(request())


@pytest.mark.parametrize("bad", [b"", b"short", None])
def test_a_bad_file_keeps_the_last_good_secret_and_is_said_once(
    tmp_path: Path, bad: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path, hasher, file = followed(tmp_path)
    before = hasher.session_key(request())
    path.unlink() if bad is None else path.write_bytes(bad)
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            file.look()
    assert len(caplog.records) == 1
    assert file.error
    assert hasher.session_key(request()) == before
    path.write_bytes(SECRET)
    file.look()
    assert file.error == ""


def test_what_the_file_holds_is_never_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, _, file = followed(tmp_path)
    with caplog.at_level(logging.DEBUG):
        for content in (b"short-secret", b"a-secret-that-is-long-enough-to-be-used"):
            path.write_bytes(content)
            file.look()
            file.look()
    assert "rotated" in caplog.text
    assert "secret-that" not in caplog.text
    assert "short-secret" not in caplog.text
