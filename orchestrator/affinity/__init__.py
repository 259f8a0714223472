"""Which replica holds a session's warm prefix: what became of it, and how long it is kept. Pure."""

from orchestrator.affinity.placement import LossReason, Placement, Verdict
from orchestrator.affinity.sessions import Affinity, Departure

__all__ = ["Affinity", "Departure", "LossReason", "Placement", "Verdict"]
