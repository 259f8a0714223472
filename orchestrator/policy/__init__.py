"""What a tenant allows: a document, and the pure decision of one request against it."""

from orchestrator.policy.decision import Allow, Deny, PolicyDecision, decide
from orchestrator.policy.document import PERMISSIVE, PolicyDocument

__all__ = ["PERMISSIVE", "Allow", "Deny", "PolicyDecision", "PolicyDocument", "decide"]
