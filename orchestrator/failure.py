"""What may be said about an exception: where it was raised, never what it says.

A message can quote the code, path or name that it tripped over, so no log gets to see one.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath


def location_of(error: BaseException) -> str:
    """`module.py:line` of the innermost frame; `unknown` for an exception that was never raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "unknown"
    last = frames[-1]
    return f"{PurePath(last.filename).name}:{last.lineno}"
