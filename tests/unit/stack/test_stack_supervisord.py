import configparser
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.stack.errors import StackError
from scripts.stack.supervisord import Program, render


def parsed(*programs: Program, state: str = "/s") -> configparser.RawConfigParser:
    """Read a rendered file as the supervisor's own parser does."""
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"), strict=False)
    parser.read_string(render(Path(state), Path(state) / "sock", Path(state) / "log", programs))
    return parser


def program(name: str = "envoy", group: str = "edge", priority: int = 1, **more: object) -> Program:
    fields = {"command": ["/bin/true"], "log": Path("/log"), **more}
    return Program(name, group, priority, **fields)  # type: ignore[arg-type]  # the fields differ in type


def test_a_group_holds_its_programs_in_order_with_their_priority() -> None:
    config = parsed(program("replica-0", "replicas", 10), program("replica-1", "replicas", 10))
    assert dict(config["group:replicas"]) == {"programs": "replica-0,replica-1", "priority": "10"}


def test_every_process_is_restarted_and_its_log_is_bounded() -> None:
    section = parsed(program())["program:envoy"]
    assert section["autorestart"] == "true"
    assert section["stdout_logfile_maxbytes"] == "5MB"
    assert section["killasgroup"] == "true"


PATHS = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters=";#"), min_size=1, max_size=20
).flatmap(lambda word: st.sampled_from([word, f"a {word}", f"{word} %(x)s", f"it's {word}"]))


@given(st.lists(PATHS, min_size=1, max_size=4))
def test_any_command_comes_back_as_it_was(command: list[str]) -> None:
    value = parsed(program(command=command))["program:envoy"]["command"]
    assert shlex.split(value.replace("%%", "%")) == command


def test_percent_signs_are_doubled_once_for_each_time_that_the_supervisor_expands_a_value() -> None:
    config = parsed(program(command=["/100%/x"], log=Path("/100%/log")))
    assert config["program:envoy"]["command"] == "/100%%/x"
    assert config["program:envoy"]["stdout_logfile"] == "/100%%%%/log"


def test_the_environment_is_written_as_the_supervisor_reads_it() -> None:
    section = parsed(program(environment={"B": "/x y", "A": "1"}))["program:envoy"]
    assert section["environment"] == 'A="1",B="/x y"'


@pytest.mark.parametrize("sign", [" ;", " #", "\n"])
def test_a_path_that_the_format_cannot_hold_is_refused(sign: str) -> None:
    with pytest.raises(StackError, match="cannot hold"):
        parsed(program(command=[f"/a{sign}b"]))


def test_a_quotation_mark_in_an_environment_value_is_refused() -> None:
    with pytest.raises(StackError, match="quotation mark"):
        parsed(program(environment={"A": 'x"y'}))
