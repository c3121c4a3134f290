"""How many clocks a handshake join takes if it never waits; tests compare the simulated circuit with it."""

from __future__ import annotations

from .design import Design

LATENCY = 3
"""Clocks after the last scan's rows: one to fetch the last row's candidates, one to compare them, and one to see that
everything is idle."""


def cycles_without_stalls(design: Design, tuples: int) -> int:
    """Each tuple takes one clock per row of a segment, and so does each bubble at the end."""
    return (tuples + design.window) * design.rows + LATENCY
