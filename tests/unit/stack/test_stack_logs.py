from pathlib import Path

from scripts.stack.logs import Follower, tail


def test_the_tail_is_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("1\n2\n3\n")
    assert tail(log, 2) == ["2", "3"]


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert tail(tmp_path / "none.log", 5) == []


def test_no_lines_are_asked_for_and_none_are_given(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("1\n")
    assert tail(log, 0) == []


def test_a_follower_returns_only_what_was_appended(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("old\n")
    follower = Follower(log)
    with log.open("a") as file:
        file.write("new\n")
    assert follower.new_text() == "new\n"
    assert follower.new_text() == ""


def test_a_follower_goes_on_in_the_new_file_after_a_rotation(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("a long first file\n")
    follower = Follower(log)
    log.rename(tmp_path / "a.log.1")
    log.write_text("second\n")
    assert follower.new_text() == "second\n"
