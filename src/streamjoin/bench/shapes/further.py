"""Cells beside the grid: skew, texts, decimals, outer joins, disorder, changing rates, many results."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Literal

import numpy as np
import pyarrow as pa

from ...arrays import Array
from ...window import TimeWindow
from ..peers.query import Query
from .grid import VALUES, banded, composite, nearly_unique, timed
from .work import Cell, Sizes, Work

WINDOW, BATCH = 20_000, 4_096
MATCHES = 25
OUTER_ROWS, OUTER_WINDOW = 200_000, 1_000
DECIMAL_ROWS = 4_000


def further() -> list[Cell]:
    streams = {
        "skew": _skew, "heavy-hitter": _heavy_hitter, "text": _text, "disorder": _disorder, "drift": _drift,
        "bursts": _bursts, "many-results": lambda sizes: banded(sizes, WINDOW, MATCHES),
    }  # fmt: skip
    tables = {
        "decimals": _decimals, "left": lambda sizes: _outer(sizes, "left"), "anti": lambda sizes: _outer(sizes, "anti"),
    }  # fmt: skip
    return [
        *(Cell(name, name, make, WINDOW, BATCH) for name, make in streams.items()),
        *(Cell(name, name, make) for name, make in tables.items()),
    ]


def zipf(rng: np.random.Generator, count: int, values: int) -> Array:
    """Numbers below `values`; the one of rank n comes 1/n as often as the first."""
    shares = 1 / np.arange(1, values + 1)
    return rng.choice(values, count, p=shares / shares.sum())


def _skew(sizes: Sizes) -> Work:
    """Zipf keys: two tuples have the same key with a probability of about 1/28."""
    return composite(sizes, WINDOW, lambda rng, count: zipf(rng, count, VALUES), WINDOW / 28)


def _heavy_hitter(sizes: Sizes) -> Work:
    """One key has half the tuples."""
    return composite(
        sizes, WINDOW, lambda rng, count: rng.integers(0, VALUES, count) * (rng.random(count) < 0.5), WINDOW / 4
    )


def _text(sizes: Sizes) -> Work:
    rng, count = np.random.default_rng(sizes.seed), WINDOW + sizes.rows
    words = pa.array([f"order-{number:08d}" for number in range(WINDOW)])
    left, right = (
        pa.table([words.take(pa.array(nearly_unique(rng, count, WINDOW))), pa.array(np.arange(count))], names)
        for names in (("k", "y"), ("c", "b"))
    )
    query = Query("l.k = r.c", equal=(("k", "c"),), is_complete=True)
    return Work(left, right, query.on, WINDOW, query)


def _disorder(sizes: Sizes) -> Work:
    """Timestamps are up to a tenth of the window out of order, within the lateness."""
    rng, lateness = np.random.default_rng(sizes.seed + 1), WINDOW // 10
    work = banded(sizes, WINDOW, 1)
    left, right = (np.arange(len(work.left)) + rng.integers(0, lateness, len(work.left)) for _ in range(2))
    return replace(timed(work, WINDOW, BATCH, left, right), lateness=lateness)


def _drift(sizes: Sizes) -> Work:
    """The keys move on with time, and the rates grow fourfold."""
    work = banded(sizes, WINDOW, 1)
    times = np.cumsum(np.linspace(2.0, 0.5, len(work.left))).astype(np.int64)
    tables = []
    for table in (work.left, work.right):
        keys = table.column(0).to_numpy() + times
        tables.append(table.set_column(0, table.schema.field(0), pa.array(keys.astype(np.int32))))
    return timed(replace(work, left=tables[0], right=tables[1]), WINDOW, BATCH, times, times)


def _bursts(sizes: Sizes) -> Work:
    """Bursts of 10,000 tuples in a tenth of their time, and a slow stream between them."""
    work = banded(sizes, WINDOW, 1)
    number = np.arange(len(work.left))
    gaps = np.where(number // 10_000 % 2 == 0, number % 10 == 0, 2)
    times = np.cumsum(gaps)
    return timed(work, WINDOW, BATCH, times, times)


def _decimals(sizes: Sizes) -> Work:
    """Arithmetic across the streams, every pair compared; about one pair in 200 is kept."""
    rng, count = np.random.default_rng(sizes.seed), max(int(DECIMAL_ROWS * min(4 * sizes.scale, 1)), 100)
    hundredths = pa.decimal128(12, 2)
    left, right = (
        pa.table(
            [
                pa.array([Decimal(int(n)).scaleb(-2) for n in rng.integers(0, 10_000, count)], hundredths),
                np.arange(count),
            ],
            names,
        )
        for names in (("d", "t"), ("e", "u"))
    )
    query = Query("l.d * r.e > 9000", window=("t", "u", count, count))
    return Work(left, right, query.on, TimeWindow(count), query, time=("t", "u"))


def _outer(sizes: Sizes, how: Literal["left", "anti"]) -> Work:
    """A band in short windows; about a third of the left rows has no match."""
    rows = max(int(OUTER_ROWS * min(4 * sizes.scale, 1)), 4_000)
    work = timed(banded(replace(sizes, rows=rows), OUTER_WINDOW, 1), OUTER_WINDOW, rows)
    return replace(work, how=how, query=replace(work.query, how=how))
