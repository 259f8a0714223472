"""The replica's environment."""

from pathlib import Path

import pytest

from replica.settings import ReplicaSettings, SettingsError, read_settings


def test_the_engine_folder_is_all_that_must_be_given() -> None:
    assert read_settings({"WARMLINE_ENGINE_DIR": "e"}) == ReplicaSettings(engine_dir=Path("e"))


def test_every_variable_is_read() -> None:
    settings = read_settings(
        {
            "WARMLINE_ENGINE_DIR": "e",
            "WARMLINE_ENGINE": "fake",
            "WARMLINE_STATUS_PORT": "8203",
            "WARMLINE_CACHE_BYTES": "1073741824",
            "WARMLINE_TRACE_FILE": "trace.jsonl",
            "WARMLINE_LIVE_SEQUENCES_MAX": "4",
            "WARMLINE_WAITING_SEQUENCES_MAX": "8",
            "WARMLINE_PREFILL_TOKENS_PER_STEP": "512",
            "WARMLINE_ENGINE_THREADS": "1",
            "WARMLINE_ENGINE_PRECISION": "bf16",
            "WARMLINE_STEP_LIMIT_MS": "100",
            "WARMLINE_FAKE_STEP_US": "7",
            "WARMLINE_FAKE_PREFILL_TOKENS_PER_S": "9",
        }
    )
    assert settings == ReplicaSettings(
        engine_dir=Path("e"),
        engine="fake",
        status_port=8203,
        cache_bytes=1 << 30,
        trace_file=Path("trace.jsonl"),
        live_sequences_max=4,
        waiting_sequences_max=8,
        prefill_tokens_per_step=512,
        engine_threads=1,
        engine_precision="bf16",
        step_limit_ms=100,
        fake_step_us=7,
        fake_prefill_tokens_per_s=9,
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("WARMLINE_ENGINE_DIR", "", "must name the engine folder"),
        ("WARMLINE_ENGINE", "gpu", "must be openvino or fake, is gpu"),
        ("WARMLINE_ENGINE_THREADS", "0", "from 1 to 256, is 0"),
        ("WARMLINE_CACHE_BYTES", "1e9", "is 1e9"),
        ("WARMLINE_STATUS_PORT", "65536", "from 0 to 65535"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read_settings({"WARMLINE_ENGINE_DIR": "e", name: value})
