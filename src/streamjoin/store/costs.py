"""What the steps of a probe cost, in nanoseconds, so that paths can be compared before one is taken."""

from __future__ import annotations

from dataclasses import dataclass

from ..predicate.lower import Lowered
from ..predicate.pair_emitter import Near


@dataclass(frozen=True, slots=True)
class Costs:
    """Figures of one machine. Only their ratios decide."""

    compare: float = 0.03
    """To test one 32-bit condition of a stored tuple in a scan."""
    scanned_probe: float = 25.0
    """To begin the scan of a probing tuple."""
    scan_step: float = 30_000.0
    """To begin a step that scans."""
    insert: float = 40.0
    """To sort a tuple into an index, and to move it when runs are merged."""
    range_: float = 60.0
    """To find the range of a probing tuple in all subwindows."""
    passed: float = 2.0
    """To skip a tuple of the range because of the rest of its key."""
    candidate: float = 15.0
    """To test a tuple of the range that may lie anywhere in memory."""
    irregular: float = 0.1
    """To compare with a tuple that has no place in the order."""
    search_step: float = 120_000.0
    """To begin a step that searches: the batch is sorted, and each run is looked up."""
    pair: float = 2.0
    """To write a pair."""


COSTS = Costs()


def comparison_cost(lowered: Lowered, costs: Costs = COSTS) -> float:
    """What it costs a scan to compare two tuples."""
    tests = sum(2.0 if isinstance(test, Near) else test.bits / 32 for test in lowered.tests)
    return costs.compare * max(tests + 2 * len(lowered.lines), 1.0)
