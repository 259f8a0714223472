"""The one error that this package raises for what a person can mend.

TrainingError
└── what was wrong, the limit, the actual value, the next step: printed without a traceback
"""


class TrainingError(Exception):
    """A problem with the input, the options or the machine; its text is for the person."""
