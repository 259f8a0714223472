"""Envoy's bootstrap: the little that it must know before it can ask the control plane."""

import ipaddress
import re
import string
from pathlib import Path
from typing import Final

from .topology import Address

TEMPLATE: Final = Path(__file__).parent.parent / "bootstrap.yaml.template"


def render(node_id: str, control_plane: Address, admin: Address) -> str:
    """The bootstrap as YAML.

    `node_id` names this Envoy to the control plane (letters, digits, dots and dashes, at most
    63); both addresses are IP literals. Raises ValueError where one of them is not.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}", node_id):
        raise ValueError(
            "node id must be 1 to 63 letters, digits, dots and dashes, "
            f"got {node_id!r}; choose another"
        )
    for place in (control_plane, admin):
        ipaddress.ip_address(place.address)
    return string.Template(TEMPLATE.read_text()).substitute(
        node_id=node_id,
        control_plane_address=control_plane.address,
        control_plane_port=control_plane.port,
        admin_address=admin.address,
        admin_port=admin.port,
    )
