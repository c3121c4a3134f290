"""Real work: a generated day of ticks with the shape of a recorded one, and recorded stocks."""

from __future__ import annotations

import string
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
from pyarrow import csv

from ...arrays import Array
from ...errors import ArgumentError
from ...window import TimeWindow
from ..peers.query import Band, Query
from .further import zipf
from .work import Cell, Sizes, Work

TRADES, QUOTES, SYMBOLS = 200_000, 1_800_000, 3_000
DAY = 23_400_000_000
"""Microseconds of a trading day."""
START = 1_767_364_200_000_000
TRADES_OF_BURST = 15
"""Trades come in bursts of one symbol, with its quotes around them."""
BURST = 450_000
"""The mean distance of a tick from the start of its burst, in microseconds."""
STEP, SPREAD = 12, 20
NEAR = 100
STOCKS = ("stock-cj", "stock-sb")
STOCK_WINDOW = 30


def real() -> list[Cell]:
    return [
        Cell("ticks", "ticks", _ticks),
        Cell("ticks-self", "ticks-self", _ticks_self),
        Cell("ticks-ratio", "ticks-ratio", _ticks_ratio),
        Cell("ticks-anti", "ticks-anti", _ticks_anti),
        Cell("ticks-as-of", "ticks-as-of", _ticks_as_of),
        Cell("stocks", "stocks", lambda sizes: _stocks(sizes, *STOCKS)),
        Cell("stocks-self", "stocks-self", lambda sizes: _stocks(sizes, STOCKS[0], STOCKS[0])),
    ]


@cache
def ticks_of_day(scale: float, seed: int) -> tuple[pa.Table, pa.Table]:
    """Trades and quotes of a part of the day, sorted by time. Prices are whole numbers that walk at random."""
    rng = np.random.default_rng(seed)
    trades = max(int(TRADES * scale), 100)
    bursts = max(trades // TRADES_OF_BURST, 1)
    # More bursts in the morning and before the close
    starts = (rng.beta(0.6, 0.6, bursts) * DAY * scale).astype(np.int64)
    symbols = zipf(rng, bursts, SYMBOLS)
    some = np.repeat([True, False], [trades, trades * QUOTES // TRADES])
    burst = rng.integers(0, bursts, len(some))
    times = starts[burst] + rng.exponential(BURST, len(some)).astype(np.int64)
    order = np.argsort(times, kind="stable")
    some, times, symbol = some[order], times[order], symbols[burst[order]]
    price = _walks(rng, symbol)
    names = pa.array(_names(rng))
    stamps = pa.array(START + times, pa.timestamp("us"))
    all_ticks = pa.table({"ts": stamps, "sym": names.take(pa.array(symbol)), "price": price})
    is_trade = pa.array(some)
    traded, quoted = all_ticks.filter(is_trade), all_ticks.filter(pa.array(~some))
    traded = traded.append_column("size", pa.array(rng.integers(1, 1_000, len(traded)).astype(np.int32)))
    ask = pa.array(quoted["price"].to_numpy() + rng.integers(1, SPREAD, len(quoted)))
    quoted = quoted.append_column("ask", ask).rename_columns(["qts", "qsym", "bid", "ask"])
    return traded.combine_chunks(), quoted.combine_chunks()


def _walks(rng: np.random.Generator, symbol: Array) -> Array:
    """A random walk per symbol, from a first price of its own."""
    order = np.argsort(symbol, kind="stable")
    walked = np.cumsum(rng.integers(-STEP, STEP + 1, len(symbol)))
    first = np.flatnonzero(np.diff(symbol[order], prepend=-1))
    begin = rng.lognormal(12.5, 1.0, len(first)).astype(np.int64) + 10_000 - walked[first]
    price = np.empty(len(symbol), np.int64)
    price[order] = walked + np.repeat(begin, np.diff(np.append(first, len(symbol))))
    return np.maximum(price, 1)


def _names(rng: np.random.Generator) -> list[str]:
    letters = np.array(list(string.ascii_uppercase))
    names: dict[str, None] = {}
    while len(names) < SYMBOLS:
        names["".join(rng.choice(letters, rng.integers(2, 5)))] = None
    return list(names)


def _ticks(sizes: Sizes) -> Work:
    trades, quotes = ticks_of_day(sizes.scale, sizes.seed)
    query = Query(
        f"l.sym = r.qsym AND l.price BETWEEN r.bid - {NEAR} AND r.bid + {NEAR}", equal=(("sym", "qsym"),),
        bands=(Band("price", "bid", -NEAR, NEAR),), window=("ts", "qts", 500_000, 2_000_000), binned=("window",),
        is_complete=True,
    )  # fmt: skip
    return Work(trades, quotes, query.on, ("500 ms", "2 seconds"), query, time=("ts", "qts"))


def _ticks_self(sizes: Sizes) -> Work:
    trades, _ = ticks_of_day(sizes.scale, sizes.seed)
    query = Query(
        "l.sym = r.sym2", equal=(("sym", "sym2"),), window=("ts", "ts2", 100_000, 100_000), binned=("window",),
        is_complete=True,
    )  # fmt: skip
    return Work(trades, _again(trades), query.on, "100 ms", query, time=("ts", "ts2"))


def _ticks_ratio(sizes: Sizes) -> Work:
    work = _ticks_self(sizes)
    on = "l.sym <> r.sym2 AND l.price * 2 > r.price2 * 3"
    return replace(work, on=on, query=replace(work.query, on=on, equal=(), is_complete=False))


def _ticks_anti(sizes: Sizes) -> Work:
    work = _ticks(sizes)
    query = replace(work.query, window=("ts", "qts", 50_000, 50_000), how="anti")
    return replace(work, window="50 ms", how="anti", query=query)


def _ticks_as_of(sizes: Sizes) -> Work:
    """Each trade with the prevailing quote of the last five seconds."""
    trades, quotes = ticks_of_day(sizes.scale, sizes.seed)
    query = Query(
        "l.sym = r.qsym", equal=(("sym", "qsym"),), window=("ts", "qts", 1, 5_000_000), is_complete=True, match="latest"
    )
    return Work(trades, quotes, query.on, ("1 us", "5 seconds"), query, time=("ts", "qts"), match=query.match)


def _again(trades: pa.Table) -> pa.Table:
    return trades.rename_columns([f"{name}2" for name in trades.column_names])


def _stocks(sizes: Sizes, *names: str) -> Work:
    """Recorded orders of two markets, or of one with itself, on the same stock within some units of time."""
    tables = []
    for number, name in enumerate(names):
        file = sizes.data / f"{name}.csv.gz"
        if not file.exists():
            raise ArgumentError(f"--data: there is no {str(file)!r}; leave out the stocks, or say where they are")
        table = csv.read_csv(file)
        tables.append(table.rename_columns([f"{column}{number or ''}" for column in table.column_names]))
    (left, right), width = tables, STOCK_WINDOW
    query = Query(
        "l.key = r.key1", equal=(("key", "key1"),), window=("eventTime", "eventTime1", width, width),
        binned=("window",), is_complete=True,
    )  # fmt: skip
    return Work(left, right, query.on, TimeWindow(width), query, time=("eventTime", "eventTime1"))
