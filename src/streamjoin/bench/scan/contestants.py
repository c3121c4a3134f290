"""The contestants: the product's scan for each spelling of the predicate, C++, and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...arrays import Array
from ...predicate import Predicate
from ...side import SIDES, Side
from ..columns import Columns, Pairs
from ..compiled_scan import CompiledScan
from ..cpp.band_join import BAND, CppBandJoin
from ..workloads import CELLJOIN_SQL


def _chained(l: Any, r: Any) -> Any:
    return r.a - 10 <= l.x <= r.a + 10 and r.b - 10 <= l.y <= r.b + 10


def _absolute(l: Any, r: Any) -> Any:
    return abs(l.x - r.a) <= 10 and abs(l.y - r.b) <= 10


PREDICATES: dict[str, Predicate] = {
    "SQL": CELLJOIN_SQL,
    "Python, a <= x <= b": _chained,
    "Python, abs()": _absolute,
}
ScanContestant = Callable[[Columns], Pairs]


def contestants(columns: dict[Side, Columns], cpp: CppBandJoin | None) -> Iterator[tuple[str, Side, ScanContestant]]:
    """Every contestant with either side stored; its window is full."""
    for stored in SIDES:
        coordinate = np.arange(len(columns[stored][0]))

        def by_columns(join: Any, stored: Side = stored, coordinate: Array = coordinate) -> ScanContestant:
            def run(probes: Columns) -> Pairs:
                low = np.zeros(len(probes[0]), np.int64)
                return join(stored, columns[stored], coordinate, probes, low, low + len(coordinate))

            return run

        if cpp is not None:
            yield "C++", stored, by_columns(cpp.join)
        for name, on in PREDICATES.items():
            yield name, stored, CompiledScan(on, stored, columns[stored])
        yield "NumPy", stored, by_columns(numpy_join)


def numpy_join(stored: str, columns: tuple[Array, Array], coordinate: Array, probes: tuple[Array, Array],
               low: Array, high: Array) -> Pairs:  # fmt: skip
    """One vectorised expression per probing tuple: what a user would write without a library."""
    number, real = columns
    found: list[Pairs] = []
    band = np.float32(BAND)
    for i, (key, other) in enumerate(zip(*probes, strict=True)):
        if stored == "left":  # x, y are stored; the probing tuple has a, b
            near = (number >= key - BAND) & (number <= key + BAND) & (real >= other - band) & (real <= other + band)
        else:
            near = (key >= number - BAND) & (key <= number + BAND) & (other >= real - band) & (other <= real + band)
        places = np.flatnonzero(near & (coordinate >= low[i]) & (coordinate < high[i]))
        found.append((np.full(len(places), i), places))
    return np.concatenate([p for p, _ in found]), np.concatenate([s for _, s in found])
