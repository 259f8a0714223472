"""From what the model wrote to what the editor may show."""

from orchestrator.postprocess.chain import CHAIN, Chain
from orchestrator.postprocess.verdict import Context, Dropped, FilterVerdict, Kept, Rule

__all__ = ["CHAIN", "Chain", "Context", "Dropped", "FilterVerdict", "Kept", "Rule"]
