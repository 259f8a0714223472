import dataclasses

import pytest

from scripts.stack.errors import StackError
from scripts.stack.layout import StackConfig
from scripts.stack.machine import MachineFacts
from scripts.stack.preflight import (
    Problem,
    check_libraries,
    check_machine,
    check_paths,
    check_room,
    refuse,
)

GOOD = MachineFacts(
    system="Linux",
    architecture="x86_64",
    libc="glibc",
    libc_version=(2, 36),
    python_version=(3, 11),
    libpython="/usr/lib/libpython3.11.so.1.0",
    disk_free_mib=50_000,
    shared_memory_free_mib=1_000,
    memory_available_mib=16_000,
    ports_taken={},
)
CONFIG = StackConfig(run_dir="/srv/stack", engine_dir="/srv/engine")


def machine_problem(**changes: object) -> Problem:
    (problem,) = check_machine(dataclasses.replace(GOOD, **changes))  # type: ignore[arg-type]  # the fields differ in type
    return problem


def room_problem(**changes: object) -> Problem:
    (problem,) = check_room(dataclasses.replace(GOOD, **changes), CONFIG)  # type: ignore[arg-type]  # the fields differ in type
    return problem


def test_a_fitting_machine_has_no_problem() -> None:
    assert check_machine(GOOD) == []
    assert check_room(GOOD, CONFIG) == []


def test_another_architecture_is_named() -> None:
    assert "Linux on aarch64" in machine_problem(architecture="aarch64").what


def test_another_system_is_named_once_although_it_has_no_glibc_either() -> None:
    assert "Darwin" in machine_problem(system="Darwin", libc="", libc_version=()).what


def test_an_old_glibc_is_named_with_limit_and_actual_version() -> None:
    what = machine_problem(libc_version=(2, 31)).what
    assert "2.35" in what
    assert "2.31" in what


def test_musl_is_no_glibc() -> None:
    assert "another C library" in machine_problem(libc="", libc_version=()).what


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_a_python_outside_the_range_is_refused(version: tuple[int, int]) -> None:
    problem = machine_problem(python_version=version)
    assert f"this is {version[0]}.{version[1]}" in problem.what
    assert "WARMLINE_PYTHON" in problem.remedy


def test_a_missing_libpython_names_the_package_that_brings_it() -> None:
    problem = machine_problem(libpython=None)
    assert "libpython3.11.so.1.0" in problem.what
    assert "apt install libpython3.11" in problem.remedy


def test_a_taken_edge_port_is_named_with_its_holder_and_its_option() -> None:
    problem = room_problem(ports_taken={8080: "process 7 (nginx)"})
    assert problem.what == "Port 8080 (edge) is taken by process 7 (nginx)."
    assert "--port N" in problem.remedy


def test_another_taken_port_is_moved_by_the_base() -> None:
    problem = room_problem(ports_taken={8085: "another process"})
    assert "(inference)" in problem.what
    assert "--port-base N" in problem.remedy


def test_too_little_memory_is_named_with_what_is_needed_and_what_is_there() -> None:
    what = room_problem(memory_available_mib=900).what
    assert "900 MiB" in what
    assert "2 replicas with 512 MiB" in what


def test_a_small_dev_shm_is_named_with_the_remedy_for_containers() -> None:
    problem = room_problem(shared_memory_free_mib=63)
    assert "128 MiB" in problem.what
    assert "--shm-size" in problem.remedy


def test_a_full_disk_is_named() -> None:
    assert "100 MiB are free" in room_problem(disk_free_mib=100).what


def test_all_problems_are_told_at_once() -> None:
    problems = [Problem("one is wrong", "mend one"), Problem("two is wrong", "mend two")]
    with pytest.raises(StackError) as caught:
        refuse(problems)
    for words in ("2 things", "one is wrong", "mend one", "two is wrong", "mend two"):
        assert words in str(caught.value)


def test_one_problem_is_told_plainly_and_none_not_at_all() -> None:
    with pytest.raises(StackError, match=r"^one is wrong\nmend one$"):
        refuse([Problem("one is wrong", "mend one")])
    refuse([])


def test_missing_system_libraries_are_named_with_their_packages() -> None:
    ldd = "\tlibexpat.so.1 => not found\n\tlibz.so.1 => /lib/libz.so.1 (0x0)\n"
    (problem,) = check_libraries("Triton", ldd)
    assert "libexpat.so.1" in problem.what
    assert "apt install libexpat1" in problem.remedy


def test_system_libraries_that_are_too_old_are_named_by_symbol_version() -> None:
    ldd = "stub: /lib/libc.so.6: version `GLIBC_2.38' not found (required by stub)\n"
    (problem,) = check_libraries("Triton", ldd)
    assert "GLIBC_2.38" in problem.what


def test_a_program_with_all_its_libraries_has_no_problem() -> None:
    assert check_libraries("Envoy", "\tlibm.so.6 => /lib/libm.so.6 (0x0)\n") == []


@pytest.mark.parametrize("path", ["/home/a b/warmline", "/home/it's", "/srv/$HOME", "/a;b", "/ä"])
def test_a_path_that_a_shell_would_change_is_refused_because_triton_does_not_quote(
    path: str,
) -> None:
    (problem,) = check_paths({"the checkout": path})
    assert "the checkout" in problem.what
    assert path in problem.what.replace("\\", "")


def test_common_paths_are_accepted() -> None:
    assert check_paths({"the run folder": "/srv/warm-line_2/v1.0+x@host,100%"}) == []
