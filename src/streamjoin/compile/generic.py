"""Small kernels that several rooms use."""

from __future__ import annotations

from ..arrays import INT64_MAX, INT64_MIN
from .cache import compiled


@compiled
def extremes(integers):  # type: ignore[no-untyped-def]
    """The smallest and the largest of some int64; of none, INT64_MAX and INT64_MIN."""
    smallest, largest = INT64_MAX, INT64_MIN
    for integer in integers:
        smallest, largest = min(smallest, integer), max(largest, integer)
    return smallest, largest
