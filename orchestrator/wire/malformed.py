"""What is wrong with a request that cannot be parsed, and JSON that is nearly right.

RequestError                refused before it became a request; carries its status
|- MalformedRequestError    400: says which field, the limit and the actual value
`- BodyTooLargeError        413
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_REPLACEMENT = rb"\ufffd"


class RequestError(ValueError):
    """Refused before it became a request."""

    status = 400
    code = "malformed"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class MalformedRequestError(RequestError):
    """A field is missing, of the wrong type, or outside of its limits."""


class BodyTooLargeError(RequestError):
    """The body is over the limit."""

    status = 413
    code = "too_large"


def without_lone_surrogates(body: bytes) -> bytes:
    r"""JSON text in which escapes of half a character (`\ud800`) are U+FFFD.

    JavaScript strings may hold such halves, an editor sends them as they are, and no Unicode text
    can. Escapes are looked at from the left one by one, so an escaped backslash before a `u` is
    not taken for one. Linear in the body.
    """
    return _ESCAPE.sub(lambda found: _REPLACEMENT if found["lone"] else found[0], body)
