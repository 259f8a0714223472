import msgspec
import pytest

from control_plane.bootstrap import render
from control_plane.topology import Address

CONTROL_PLANE = Address("127.0.0.1", 8086)
ADMIN = Address("127.0.0.1", 8087)


def test_the_bootstrap_names_the_node_and_both_addresses() -> None:
    bootstrap = msgspec.yaml.decode(render("envoy-0", CONTROL_PLANE, ADMIN))
    [cluster] = bootstrap["static_resources"]["clusters"]
    [locality] = cluster["load_assignment"]["endpoints"]
    [member] = locality["lb_endpoints"]
    assert bootstrap["node"] == {"id": "envoy-0", "cluster": "warmline"}
    assert bootstrap["admin"]["address"]["socket_address"]["port_value"] == 8087
    assert member["endpoint"]["address"]["socket_address"]["port_value"] == 8086


@pytest.mark.parametrize("node_id", ["", "a b", 'x"\nadmin: {}', "a" * 64])
def test_a_node_id_that_is_no_name_is_refused(node_id: str) -> None:
    with pytest.raises(ValueError, match="node id must be"):
        render(node_id, CONTROL_PLANE, ADMIN)


def test_a_host_name_is_refused() -> None:
    with pytest.raises(ValueError, match="localhost"):
        render("envoy-0", Address("localhost", 8086), ADMIN)
