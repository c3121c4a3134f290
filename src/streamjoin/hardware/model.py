"""How many clocks a handshake join takes that never has to wait: what the simulated circuit is held against."""

from __future__ import annotations

from .design import Design

LATENCY = 3
"""From the last scan's first clock on, beyond its rows: one to fetch the last row's candidates, one to compare them,
and the one in which everything is seen to be idle."""


def cycles_without_stalls(design: Design, tuples: int) -> int:
    """Each tuple, and each bubble that moves the window on at the end, takes a clock per row of a segment."""
    return (tuples + design.window) * design.rows + LATENCY
