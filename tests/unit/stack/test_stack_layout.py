import json
from pathlib import Path

import pytest

from scripts.stack.errors import StackError
from scripts.stack.layout import (
    PORT_BLOCK,
    REPLICAS_MAX,
    SOCKET_PATH_BYTES_MAX,
    WORKERS_MAX,
    RunFolder,
    StackConfig,
    ports_of,
)


def config(**changes: object) -> StackConfig:
    return StackConfig.from_document(
        {**StackConfig(run_dir="/run", engine_dir="/engine").to_document(), **changes}
    )


def test_the_largest_stack_has_every_port_in_its_block_and_none_twice() -> None:
    largest = config(replicas=REPLICAS_MAX, workers=WORKERS_MAX)
    named = ports_of(largest).named()
    assert len(named) == 6 + 2 * WORKERS_MAX + 3 * REPLICAS_MAX
    others = set(named) - {largest.edge_port}
    assert min(others) >= largest.port_base
    assert max(others) < largest.port_base + PORT_BLOCK


def test_settings_survive_being_written_and_read() -> None:
    original = config(pools=("fast",), trace=True, engine="fake")
    assert StackConfig.from_document(json.loads(json.dumps(original.to_document()))) == original


@pytest.mark.parametrize(
    ("field", "value", "option"),
    [
        ("replicas", 0, "--replicas"),
        ("replicas", REPLICAS_MAX + 1, "--replicas"),
        ("workers", 0, "--workers"),
        ("edge_port", 80, "--port"),
        ("port_base", 65_500, "--port-base"),
        ("cache_mib", 1, "--cache-mib"),
    ],
)
def test_a_value_outside_its_limit_is_refused_with_option_limit_and_value(
    field: str, value: int, option: str
) -> None:
    with pytest.raises(StackError, match=rf"{option} is {value}; it can be \d+ to \d+"):
        config(**{field: value})


def test_an_edge_port_inside_the_block_is_refused() -> None:
    with pytest.raises(StackError, match="lies in the block 8081 to 8150"):
        config(edge_port=8100)


def test_a_stack_without_pools_is_refused() -> None:
    with pytest.raises(StackError, match="1 pool or more"):
        config(pools=())


def test_the_supervisors_socket_lies_in_the_run_folder_where_the_path_is_short() -> None:
    folder = RunFolder(Path("/srv/warmline"))
    assert folder.supervisor_socket(Path("/tmp/x")) == Path("/srv/warmline/run/supervisor.sock")


def test_a_deep_run_folder_has_its_socket_elsewhere_under_a_name_of_its_own() -> None:
    deep = RunFolder(Path("/" + "/".join(["folder"] * 20)))
    other = RunFolder(deep.path / "other")
    runtime = Path("/run/user/1000")
    assert len(bytes(deep.supervisor_socket(runtime))) <= SOCKET_PATH_BYTES_MAX
    assert deep.supervisor_socket(runtime) != other.supervisor_socket(runtime)


def test_the_limit_counts_bytes_because_the_kernel_does() -> None:
    folder = RunFolder(Path("/" + "ä" * 45))
    assert folder.supervisor_socket(Path("/r")).parent == Path("/r")


def test_two_stacks_never_share_a_prefix_in_shared_memory() -> None:
    one, two = RunFolder(Path("/a")), RunFolder(Path("/b"))
    assert one.shared_memory_prefix() != two.shared_memory_prefix()
