"""What can go wrong with one request, and nothing else.

    ReplicaError                  carries a code that the adapter maps to a Triton error code
    +-- InvalidRequestError       the caller's mistake; nothing was computed
    +-- ReplicaFullError          a limit on held work is reached; nothing was computed
    +-- ReplicaUnavailableError   no engine now, or the replica stops; nothing was computed
    +-- EngineFailedError         the engine broke while the request was in it

A message says what, the limit, the actual value and the next step, and never a token.
"""

from enum import Enum


class ErrorCode(Enum):
    """The closed set of failures that a caller can see."""

    INVALID_ARGUMENT = "invalid_argument"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class ReplicaError(Exception):
    """One request failed; the replica serves on."""

    code = ErrorCode.INTERNAL


class InvalidRequestError(ReplicaError):
    """The request breaks the tensor contract."""

    code = ErrorCode.INVALID_ARGUMENT


class ReplicaFullError(ReplicaError):
    """The replica holds as much work as it may."""

    code = ErrorCode.RESOURCE_EXHAUSTED


class ReplicaUnavailableError(ReplicaError):
    """The replica cannot take work now."""

    code = ErrorCode.UNAVAILABLE


class EngineFailedError(ReplicaError):
    """The engine raised while it held the request."""

    code = ErrorCode.INTERNAL
