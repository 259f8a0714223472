"""One JSON line per finished sequence: counts and monotonic times, nothing that was sent in."""

import json
from pathlib import Path
from typing import Protocol

from replica.sequence import LiveSequence, Summary


class Trace(Protocol):
    """Where finished sequences are written down."""

    def record(self, sequence: LiveSequence, summary: Summary) -> None:
        """Note a sequence that has ended."""
        ...

    def close(self) -> None:
        """Nothing follows."""
        ...


class NoTrace:
    """Writes nothing."""

    def record(self, sequence: LiveSequence, summary: Summary) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class FileTrace:
    """Appends to a file, a line at a time."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def record(self, sequence: LiveSequence, summary: Summary) -> None:
        """Write the line of an ended sequence."""
        self._file.write(json.dumps(trace_line(sequence, summary)) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def trace_line(sequence: LiveSequence, summary: Summary) -> dict[str, int | str]:
    """The line's fields, all of them counts, times and the name of the finish reason."""
    return {
        "accepted_us": sequence.accepted_us,
        "prompt_tokens": len(sequence.request.prompt_ids),
        "cached_tokens": summary.cached_tokens,
        "computed_tokens": sequence.computed_tokens,
        "output_tokens": sequence.output_tokens,
        "tokens_after_cancel": sequence.tokens_after_cancel,
        "finish_reason": summary.finish_reason.name.lower(),
        "queue_us": summary.queue_us,
        "prefill_us": summary.prefill_us,
        "decode_us": summary.decode_us,
    }
