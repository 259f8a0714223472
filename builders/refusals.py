"""The one error that a build ends with when the input, not the builder, is at fault.

A refusal says what was found, what is supported, and the next step. Anything else that escapes
a build is a bug of the builder.
"""


class BuildRefusedError(Exception):
    """The checkpoint, an option or the machine does not allow this build."""

    def __init__(self, found: str, supported: str, next_step: str) -> None:
        super().__init__(f"{found}\n  supported: {supported}\n  next step: {next_step}")
