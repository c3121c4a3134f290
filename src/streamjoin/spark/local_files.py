"""Files of an executor, beside Spark's own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

ABANDONED = 86_400
"""Seconds after which files are removed that nobody has used."""


def local_directory() -> Path:
    """The directory of the executor's own files, which Spark removes when the executor ends."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(local if local and os.path.isdir(local) else tempfile.gettempdir())


def remove(path: str | Path) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
