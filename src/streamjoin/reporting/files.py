"""Figures as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import StreamJoinError


def write_json(file: Path | None, figures: dict[str, Any]) -> None:
    """Write the figures if a file was given; StreamJoinError if that fails."""
    if file is None:
        return
    try:
        file.write_text(json.dumps(figures, indent=2) + "\n")
    except OSError as error:
        raise StreamJoinError(f"--json: cannot write {str(file)!r}: {error.strerror}") from None
