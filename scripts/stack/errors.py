"""The one exception that a person is meant to read."""

import sys
from collections.abc import Callable


class StackError(Exception):
    """Something that the person at the keyboard can mend.

    The message says what is wrong, with the limit and the actual value; `remedy` is the next step.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n{self.remedy}"


def exit_code_of(command: Callable[[], int]) -> int:
    """Run a command's body; turn a `StackError` or Ctrl-C into a message and an exit code."""
    try:
        return command()
    except StackError as error:
        print(f"error: {error.what}\n       {error.remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe is gone; a complaint at exit would be noise
        return 0
