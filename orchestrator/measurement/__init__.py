"""The measurement plane: a process of its own, which the request plane never waits for."""
