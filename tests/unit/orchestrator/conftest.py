"""Property tests have no time limit of their own: speed is held by benches, not by tests."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
