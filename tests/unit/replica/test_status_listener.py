"""What the status listener answers."""

import http.client
import json

from replica.load_report import LoadReport
from replica.status_server import Status, StatusServer, health_body, load_body, metrics_body

WELL = Status(None, stuck=False, engine_digest="sha256:abc", load=LoadReport(live_sequences=3))
STUCK = Status("stuck: a step", stuck=True, engine_digest="sha256:abc", load=LoadReport())


def test_health_is_200_or_503_with_the_reason() -> None:
    assert health_body(WELL) == (200, "text/plain", b"ok\n")
    assert health_body(STUCK) == (503, "text/plain", b"stuck: a step\n")


def test_the_load_is_json_with_digest_and_stuck() -> None:
    code, content_type, body = load_body(STUCK)
    document = json.loads(body)
    assert (code, content_type) == (200, "application/json")
    assert document["stuck"] is True
    assert document["engine_digest"] == "sha256:abc"
    assert document["live_sequences"] == 0


def test_metrics_are_the_load_under_our_prefix_with_types() -> None:
    _, _, body = metrics_body(WELL)
    lines = body.decode().splitlines()
    assert "warmline_replica_live_sequences 3" in lines
    assert "# TYPE warmline_replica_live_sequences gauge" in lines
    assert "# TYPE warmline_replica_cancelled_total counter" in lines
    assert "# TYPE warmline_replica_cache_blocks_total gauge" in lines
    assert "warmline_replica_stuck 0" in lines
    assert 'warmline_replica_engine_info{engine_digest="sha256:abc"} 1' in lines


def test_the_listener_answers_on_the_loopback_interface() -> None:
    server = StatusServer(0, lambda: STUCK)
    server.start()
    for path, code in (("/load", 200), ("/healthz", 503), ("/other", 404)):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.request("GET", path)
        assert connection.getresponse().status == code
        connection.close()
    server.stop()
