from pathlib import Path

import pytest

from scripts.stack.errors import StackError
from scripts.stack.supervisor import clean_environment, make_private


def test_a_folder_for_sockets_is_open_to_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "sockets"
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "sockets"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(StackError, match="open to others"):
        make_private(folder)


def test_a_stack_inherits_neither_proxies_nor_a_foreign_import_path() -> None:
    environ = {"PATH": "/bin", "http_proxy": "http://proxy", "PYTHONPATH": "/mine", "SECRET": "x"}
    assert clean_environment(environ, "/ours") == {
        "PATH": "/bin",
        "PYTHONPATH": "/ours",
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }
