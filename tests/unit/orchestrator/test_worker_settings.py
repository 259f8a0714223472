from pathlib import Path

import pytest
import yaml

from orchestrator.settings import SettingsError, parse_settings, read_settings

GOOD = {
    "settings_version": 1,
    "worker": "worker-0",
    "listen": {"address": "127.0.0.1", "port": 8101},
    "metrics": {"address": "127.0.0.1", "port": 8111},
    "inference": {"address": "127.0.0.1", "port": 8085},
    "pools": [{"name": "fast", "engine_dir": "e"}],
    "session_secret_file": "key",
    "development_tenant": "development",
    "replicas": [{"slot": "slot-0", "status_url": "http://127.0.0.1:8203"}],
}


def test_the_documented_settings_are_read() -> None:
    settings = parse_settings(yaml.safe_dump(GOOD))
    assert settings.listen.target == "127.0.0.1:8101"
    assert settings.pools[0].name == "fast"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"extra": 1}, "unknown field `extra`"),
        ({"listen": {"address": "x", "port": 0}}, r"listen\.port"),
        ({"settings_version": 2}, "settings_version"),
        ({"pools": []}, "pools"),
        ({"pools": [{"name": "a", "engine_dir": "e"}] * 2}, "names must differ"),
        ({"replicas": [{"slot": "s", "status_url": "ftp://x"}]}, "status_url"),
        ({"sessions": {"idle_s": 0}}, r"sessions\.idle_s"),
        ({"sessions": {"entries_max": 0}}, r"sessions\.entries_max"),
        ({"control_plane_status_url": "control"}, "control_plane_status_url"),
    ],
)
def test_wrong_settings_are_refused_by_key(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        parse_settings(yaml.safe_dump(GOOD | change))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.yaml"):
        read_settings(tmp_path / "absent.yaml")
