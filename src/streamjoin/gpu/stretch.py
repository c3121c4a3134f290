"""Where the tuples of a subwindow lie in the memory of a GPU."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from ..store.subwindow import Subwindow


@dataclass(slots=True)
class Stretch:
    """Places [start, start + size) belong to the subwindow. The first `sent` of its tuples lie there, and the first
    `in_runs` are found in sorted runs."""

    subwindow: weakref.ref[Subwindow]
    start: int
    size: int
    sent: int = 0
    in_runs: int = 0
    has_nulls: bool = False
    """Whether any of those that were sent has a NULL where the condition looks."""
    is_gone: bool = False
    """Whether its tuples have expired. No probing tuple's window holds their coordinates."""
