import dataclasses

from scripts.stack.layout import StackConfig
from scripts.stack.readiness import Health, StartWatch, health_checks, views, with_rotation
from scripts.stack.supervisor import ProcessInfo

CONFIG = StackConfig(run_dir="/r", engine_dir="/e", replicas=1, workers=1)
CHECKS = health_checks(CONFIG)
HEALTHY = {check.process: Health(ready=True, detail="200 ok") for check in CHECKS}


def info(name: str, state: str = "RUNNING", started_s: int = 100) -> ProcessInfo:
    return ProcessInfo(name, name, state, 7, started_s, 1, "")


ALL_RUN = [info(check.process) for check in CHECKS]


def test_a_stack_is_ready_when_every_process_lives_and_says_so() -> None:
    assert all(view.ready for view in views(CHECKS, ALL_RUN, HEALTHY))


def test_a_health_answer_of_a_process_that_does_not_live_counts_for_nothing() -> None:
    infos = [dataclasses.replace(one, state="BACKOFF") for one in ALL_RUN]
    assert not any(view.ready for view in views(CHECKS, infos, HEALTHY))


def test_a_process_that_is_up_but_not_healthy_says_why() -> None:
    answers = {**HEALTHY, "replica-0": Health(ready=False, detail="503 loading")}
    (late,) = [view for view in views(CHECKS, ALL_RUN, answers) if not view.ready]
    assert (late.name, late.detail) == ("replica-0", "503 loading")


def test_a_process_that_the_supervisor_does_not_know_is_absent() -> None:
    assert {view.state for view in views(CHECKS, [], HEALTHY)} == {"ABSENT"}


def test_the_edge_is_checked_through_envoy_to_a_worker() -> None:
    check = next(check for check in CHECKS if check.process == "envoy")
    assert check.url == "http://127.0.0.1:8080/readyz"


ROTATION = """\
pool-fast::127.0.0.1:8121::cx_active::1
pool-fast::127.0.0.1:8121::health_flags::{replica}
pool-large::127.0.0.1:8121::health_flags::healthy
orchestrator::127.0.0.1:8101::health_flags::healthy
"""


def test_what_envoy_sends_to_is_ready() -> None:
    assert with_rotation(CHECKS, HEALTHY, ROTATION.format(replica="healthy")) == HEALTHY


def test_a_healthy_replica_that_one_pool_does_not_send_to_is_not_ready_and_says_why() -> None:
    answers = with_rotation(CHECKS, HEALTHY, ROTATION.format(replica="/failed_active_hc"))
    assert not answers["replica-0"].ready
    assert "failed_active_hc" in answers["replica-0"].detail
    assert answers["worker-0"].ready


def test_an_endpoint_that_envoy_has_not_heard_of_is_not_ready() -> None:
    answers = with_rotation(CHECKS, HEALTHY, "")
    assert answers["worker-0"] == Health(ready=False, detail="Envoy does not know it yet")
    assert answers["control-plane"].ready


def test_a_draining_replica_is_no_fault() -> None:
    answers = with_rotation(CHECKS, HEALTHY, ROTATION.format(replica="/eds_status_draining"))
    assert answers["replica-0"].ready


def test_a_replicas_own_fault_is_shown_rather_than_envoys_opinion_of_it() -> None:
    loading = {**HEALTHY, "replica-0": Health(ready=False, detail="503 loading")}
    answers = with_rotation(CHECKS, loading, ROTATION.format(replica="/failed_active_hc"))
    assert answers["replica-0"].detail == "503 loading"


def test_a_process_that_died_once_is_given_another_try() -> None:
    watch = StartWatch()
    for started_s in (100, 101):
        watch = watch.saw([info("envoy", "BACKOFF", started_s)])
    assert watch.failed([info("envoy", "STARTING", 101)]) is None


def test_a_process_that_needs_a_third_start_fails_the_whole() -> None:
    watch = StartWatch()
    for started_s in (100, 101, 103):
        watch = watch.saw([info("envoy", "BACKOFF", started_s)])
    assert watch.failed([info("envoy", "STARTING", 103)]) == "envoy"


def test_looking_often_at_one_try_counts_it_once() -> None:
    watch = StartWatch()
    for _ in range(20):
        watch = watch.saw([info("envoy", "BACKOFF", 100)])
    assert watch.failed([info("envoy", "BACKOFF", 100)]) is None


def test_a_process_that_the_supervisor_has_given_up_fails_the_whole() -> None:
    assert StartWatch().failed([info("worker-0", "FATAL")]) == "worker-0"


def test_only_a_replica_that_was_started_and_then_stopped_is_parked() -> None:
    def parked(name: str, group: str, state: str, started_s: int) -> bool:
        infos = [ProcessInfo(name, group, state, 0, started_s, 0, "")]
        return next(view for view in views(CHECKS, infos, HEALTHY) if view.name == name).is_parked

    assert parked("replica-0", "replicas", "STOPPED", 100)
    assert not parked("replica-0", "replicas", "STOPPED", 0), "it was never started"
    assert not parked("replica-0", "replicas", "EXITED", 100)
    assert not parked("worker-0", "plane", "STOPPED", 100)
