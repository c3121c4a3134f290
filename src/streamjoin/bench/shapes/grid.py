"""The grid: predicates, windows and batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ...arrays import Array
from ...window import TimeWindow
from ..peers.query import Band, Query
from ..workloads import CELL_WIDTH, CELLJOIN_SCHEMAS, CELLJOIN_SQL, INTEGER_SCHEMAS
from .work import Cell, Sizes, Work

WINDOWS = (50, 1_000, 20_000, 400_000)
BATCHES = (64, 4_096, 65_536)
QUICK_WINDOWS, QUICK_BATCHES = (50, 20_000), (4_096,)
MOST_COMPARED = 20_000
"""The largest window of a predicate without a key: every pair is compared."""
VALUES = 500
"""Different values of the equality with a band."""
LARGEST_OF_SQUARE = 16_000
"""The peers take no larger numbers."""
SMALLEST, RANGE = 1e3, 1e6
"""The smallest number of the ratio, and how many times as large the largest is."""


def grid() -> list[Cell]:
    cells = []
    for shape, make in SHAPES.items():
        for window in WINDOWS:
            if shape == "ratio" and window > MOST_COMPARED:
                continue
            for batch in BATCHES:
                cells.append(_cell(shape, make, window, batch))
    return cells


def _cell(shape: str, make: Callable[[Sizes, int, int], Work], window: int, batch: int) -> Cell:
    quick = window in QUICK_WINDOWS and batch in QUICK_BATCHES
    cell = Cell("", shape, lambda sizes: make(sizes, window, batch), window, batch, quick)
    return Cell(f"{shape}-{cell.place}", shape, cell.make, window, batch, quick)


def nearly_unique(rng: np.random.Generator, count: int, window: int) -> Array:
    """All numbers below the window's size in a new order, again and again: one match per tuple."""
    whole = np.concatenate([rng.permutation(window) for _ in range(-(-count // window))])
    return whole[:count]


def integers(rng: np.random.Generator, x: Array, y: Array | None, side: str) -> pa.Table:
    """A table of two int32 columns; a `y` of None is drawn."""
    y = rng.integers(0, 2**31, len(x)) if y is None else y
    return pa.table([x.astype(np.int32), y.astype(np.int32)], schema=INTEGER_SCHEMAS[side])  # type: ignore[index]


def _rows(sizes: Sizes, window: int) -> int:
    return window + sizes.rows


def _equality(sizes: Sizes, window: int, batch: int) -> Work:
    rng = np.random.default_rng(sizes.seed)
    left, right = (
        integers(rng, nearly_unique(rng, _rows(sizes, window), window), None, side) for side in ("left", "right")
    )
    query = Query("l.x = r.a", equal=(("x", "a"),))
    return Work(left, right, query.on, window, query, tuned=("equality", 0))


def _band(sizes: Sizes, window: int, batch: int) -> Work:
    return banded(sizes, window, 1)


def banded(sizes: Sizes, window: int, matches: int) -> Work:
    """A band over windows of tuples, with some matches per tuple."""
    rng = np.random.default_rng(sizes.seed)
    width = (3 * matches - 1) // 2
    left, right = (
        integers(rng, rng.integers(0, 3 * window, _rows(sizes, window)), None, side) for side in ("left", "right")
    )
    query = Query(f"l.x BETWEEN r.a - {width} AND r.a + {width}", bands=(Band("x", "a", -width, width),))
    return Work(left, right, query.on, window, query, tuned=("band", width))


def _composite(sizes: Sizes, window: int, batch: int) -> Work:
    return composite(sizes, window, lambda rng, count: rng.integers(0, VALUES, count), window / VALUES)


def composite(
    sizes: Sizes, window: int, draw: Callable[[np.random.Generator, int], Array], partners: float
) -> Work:  # fmt: skip
    """An equality and a band. `partners`: tuples of a window with the same key, of which the band keeps about one."""
    rng = np.random.default_rng(sizes.seed)
    largest = max(int(21 * partners), 64)
    left, right = (
        integers(rng, draw(rng, _rows(sizes, window)), rng.integers(0, largest, _rows(sizes, window)), side)
        for side in ("left", "right")
    )
    query = Query(
        "l.x = r.a AND l.y BETWEEN r.b - 10 AND r.b + 10", equal=(("x", "a"),), bands=(Band("y", "b", -10, 10),),
        binned=("y",), is_complete=True,
    )  # fmt: skip
    return Work(left, right, query.on, window, query)


def _square(sizes: Sizes, window: int, batch: int) -> Work:
    rng, count = np.random.default_rng(sizes.seed), _rows(sizes, window)
    largest = min(int(2.05 * CELL_WIDTH * window**0.5), LARGEST_OF_SQUARE)
    left, right = (
        pa.table(
            [
                rng.integers(1, largest + 1, count).astype(np.int32),
                (rng.integers(128, 128 * largest, count) / 128).astype(np.float32),
            ],
            schema=schema,
        )
        for schema in CELLJOIN_SCHEMAS.values()
    )
    return Work(left, right, CELLJOIN_SQL, window, Query(CELLJOIN_SQL), tuned=("celljoin", CELL_WIDTH))


def _ratio(sizes: Sizes, window: int, batch: int) -> Work:
    rng, count = np.random.default_rng(sizes.seed), _rows(sizes, window)
    left, right = (
        pa.table(
            [
                rng.integers(0, 100, count).astype(np.int32),
                np.rint(SMALLEST * RANGE ** rng.random(count)),
            ],
            names,
        )
        for names in (("x", "y"), ("a", "b"))
    )
    # Both logarithms are uniform: a share of s**2 / 2 of the pairs has a ratio over RANGE ** (1 - s).
    ratio = int(RANGE ** (1 - (2 / window) ** 0.5))
    on = f"l.x <> r.a AND l.y > r.b * {ratio}"
    return Work(left, right, on, window, Query(on))


def _time_equality(sizes: Sizes, window: int, batch: int) -> Work:
    return timed(_equality(sizes, window, batch), window, batch)


def _time_band(sizes: Sizes, window: int, batch: int) -> Work:
    return timed(_band(sizes, window, batch), window, batch)


def timed(work: Work, window: int, batch: int, left: Array | None = None, right: Array | None = None) -> Work:
    """The same with windows of time and the given timestamps; by default a tuple of each stream per unit of time."""
    times = [np.arange(len(work.left)) if some is None else some for some in (left, right)]
    old = work.query
    query = Query(
        old.on, equal=old.equal, bands=old.bands, window=("t", "u", window, window), is_complete=True,
        binned=(*(band.left for band in old.bands), *(("window",) if batch > window // 4 else ())),
    )  # fmt: skip
    tables = work.left.append_column("t", pa.array(times[0])), work.right.append_column("u", pa.array(times[1]))
    return Work(*tables, work.on, TimeWindow(window), query, time=("t", "u"))


SHAPES: dict[str, Callable[[Sizes, int, int], Work]] = {
    "equality": _equality, "composite": _composite, "band": _band, "square": _square, "ratio": _ratio,
    "time-equality": _time_equality, "time-band": _time_band,
}  # fmt: skip
