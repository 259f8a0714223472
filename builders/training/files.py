"""Files that are whole or absent: a reader never sees half of one, whatever the writer met."""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` beside `path`, flush it to the disk, then take the old file's place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
