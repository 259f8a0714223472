"""How a request can end, and why: closed lists, the same words in answers, records and metrics."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a request ended; every request ends in exactly one way."""

    SHOWN_CANDIDATE = "shown_candidate"
    EMPTY = "empty"
    REFUSED = "refused"
    FILTERED = "filtered"
    EXCLUDED = "excluded"
    CLIENT_REFUSED = "client_refused"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RefusalReason(StrEnum):
    """Why a request was refused."""

    DEADLINE = "deadline"
    SHED_SPECULATIVE = "shed_speculative"
    SHED_BLOCK = "shed_block"
    SHED_TIER = "shed_tier"
    RATE_LIMITED = "rate_limited"
    SPEND_CEILING = "spend_ceiling"
    NO_CAPACITY = "no_capacity"
