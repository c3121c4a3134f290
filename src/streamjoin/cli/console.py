"""Where commands print their tables and notes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def wide_console() -> Console:
    """The terminal, or a file that is wide enough for the tables."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


def note(text: str) -> None:
    """Tell what the user may not expect."""
    print(f"streamjoin: note: {text}", file=sys.stderr)
