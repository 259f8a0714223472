from scripts.stack.readiness import ProcessView
from scripts.stack.status_table import document, restarts, table

READY = ProcessView("envoy", "RUNNING", True, "", 12, 1_000, "http://127.0.0.1:8080")
DYING = ProcessView("replica-0", "BACKOFF", False, "exit status 1", 0, 1_000, "127.0.0.1:8121")


def test_restarts_count_from_the_supervisors_last_start() -> None:
    log = [
        "INFO supervisord started with pid 1",
        "INFO spawned: 'envoy' with pid 2",
        "INFO spawned: 'envoy' with pid 3",
        "INFO supervisord started with pid 9",
        "INFO spawned: 'envoy' with pid 10",
        "INFO spawned: 'replica-0' with pid 11",
        "INFO spawned: 'replica-0' with pid 12",
    ]
    assert restarts(log) == {"envoy": 0, "replica-0": 1}


def test_the_status_is_ready_only_when_every_process_is() -> None:
    assert document([READY], {}, {}, now_s=1_060.0)["ready"]
    assert not document([READY, DYING], {}, {}, now_s=1_060.0)["ready"]


def test_uptime_is_that_of_the_running_process() -> None:
    envoy, replica = document([READY, DYING], {}, {}, now_s=1_060.4)["processes"]
    assert (envoy["uptime_s"], replica["uptime_s"]) == (60, 0)


def test_the_table_shows_state_restarts_and_the_fault() -> None:
    shown = table(document([READY, DYING], {"replica-0": 4}, {}, now_s=4_725.0))
    assert "1 h 2 min" in shown
    assert "replica-0: exit status 1" in shown
    assert [line.split()[4] for line in shown.splitlines() if line.startswith("replica-0 ")] == [
        "4"
    ]


def test_a_replicas_load_is_shown_in_shares() -> None:
    load = {
        "live_sequences": 3, "waiting_sequences": 1, "step_us": 2_500, "warm_sessions": 7,
        "cache_blocks_total": 200, "cache_blocks_used": 50,
        "prompt_tokens_computed_total": 10, "prompt_tokens_cached_total": 90,
    }  # fmt: skip
    row = table(document([READY], {}, {"replica-0": load}, now_s=1_001.0)).splitlines()[-1]
    assert row.split() == ["replica-0", "-", "3", "1", "2.5", "7", "25", "%", "90", "%"]


def test_a_replica_that_does_not_answer_has_dashes() -> None:
    row = table(document([READY], {}, {"replica-0": {}}, now_s=1_001.0)).splitlines()[-1]
    assert row.split() == ["replica-0", *["-"] * 7]


def test_a_replica_shows_where_it_stands_on_the_ring() -> None:
    def shown(**slot: object) -> str:
        placements = {"replica-0": slot}
        status = document([READY], {}, {"replica-0": {}}, 1_001.0, placements)
        return table(status).splitlines()[-1].split()[1]

    assert shown(state="draining", ramp=None) == "draining"
    assert shown(state="serving", ramp={"percent": 40}) == "40"


def test_a_replica_stopped_on_purpose_does_not_make_the_stack_unready() -> None:
    parked = ProcessView("replica-0", "STOPPED", False, "stopped", 0, 1_000, "", is_parked=True)
    assert document([READY, parked], {}, {}, now_s=1_060.0)["ready"]
