"""Which shape a request is served in and which model pool serves it, decided once."""

from orchestrator.routing.decision import ModelPool, NoRoute, Route, RoutingDecision, decide
from orchestrator.routing.shape import shape_of

__all__ = ["ModelPool", "NoRoute", "Route", "RoutingDecision", "decide", "shape_of"]
