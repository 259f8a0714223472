from scripts.stack.plan import Interpreter, Marker, Step, disk_needed_mib, steps

HERE = Interpreter("3.11", "/usr")
ROOT = "/checkout"
DIGESTS = {"plane": "p1", "dev": "d1", "triton": "t1", "envoy": "e1"}


def marker(**locks: str) -> Marker:
    return Marker(HERE, ROOT, locks)


def planned(requested: set[str], markers: dict[str, Marker | None]) -> tuple[Step, ...]:
    return steps(requested, markers, DIGESTS, HERE, ROOT)


def test_without_any_environment_everything_requested_is_made_anew() -> None:
    assert planned({"plane", "triton"}, {}) == (
        Step("plane", "plane", ("plane",), fresh=True),
        Step("triton", "triton", ("triton",), fresh=True),
    )


def test_a_complete_environment_needs_nothing() -> None:
    assert planned({"plane"}, {"plane": marker(plane="p1")}) == ()


def test_a_half_finished_environment_has_no_marker_and_is_made_anew() -> None:
    assert planned({"envoy"}, {"envoy": None})[0].fresh


def test_a_changed_lock_makes_its_environment_anew_and_leaves_the_others() -> None:
    markers = {"triton": marker(triton="old"), "envoy": marker(envoy="e1")}
    assert [step.folder for step in planned({"triton", "envoy"}, markers)] == ["triton"]


def test_another_python_makes_the_environment_anew() -> None:
    other = Marker(Interpreter("3.12", "/usr"), ROOT, {"plane": "p1"})
    assert planned({"plane"}, {"plane": other})[0].fresh


def test_a_checkout_that_was_moved_makes_the_environment_anew() -> None:
    other = Marker(HERE, "/elsewhere", {"plane": "p1"})
    assert planned({"plane"}, {"plane": other})[0].fresh


def test_the_test_tools_are_added_to_a_complete_plane() -> None:
    assert planned({"plane", "dev"}, {"plane": marker(plane="p1")}) == (
        Step("plane", "dev", ("plane", "dev"), fresh=False),
    )


def test_changed_test_tools_make_plane_anew_so_that_no_old_tool_stays() -> None:
    assert planned({"dev"}, {"plane": marker(plane="p1", dev="old")})[0].fresh


def test_test_tools_that_are_behind_do_not_concern_who_needs_plane_only() -> None:
    assert planned({"plane"}, {"plane": marker(plane="p1", dev="old")}) == ()


def test_plane_made_anew_keeps_the_test_tools_that_it_had() -> None:
    step = planned({"plane"}, {"plane": marker(plane="old", dev="d1")})[0]
    assert (step.lock, step.holds, step.fresh) == ("dev", ("plane", "dev"), True)


def test_the_room_needed_is_the_sum_of_the_steps() -> None:
    both = planned({"plane", "triton"}, {})
    assert disk_needed_mib(both) == disk_needed_mib(both[:1]) + disk_needed_mib(both[1:])
