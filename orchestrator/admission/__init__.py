"""Admit or refuse, and hold the permit exactly as long as the work."""

from orchestrator.admission.decision import (
    AdmissionDecision,
    Admit,
    LoadSnapshot,
    Refuse,
    decide,
)
from orchestrator.admission.permits import Permits

__all__ = ["AdmissionDecision", "Admit", "LoadSnapshot", "Permits", "Refuse", "decide"]
