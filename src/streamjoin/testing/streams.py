"""Streams to order: generated columns and timestamps, and two known workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import ArgumentError
from .exact import decimal

Skew: TypeAlias = Literal["uniform", "zipf", "one-key", "increasing", "multimodal"]
"""How values spread over their domain: evenly, mostly a few values, one value, growing with the row number, or around
five humps."""
Integers: TypeAlias = npt.NDArray[np.int64]
START = 1_700_000_000_000_000
"""The first timestamp of a stream, in microseconds (November 2023)."""


def stream(
    n: int,
    *,
    columns: Mapping[str, str | pa.DataType] | None = None,
    seed: int = 0,
    interval: int = 1_000,
    skew: Skew | Mapping[str, Skew] = "uniform",
    domain: int = 10_000,
    disorder: int = 0,
    bursts: int = 1,
    ties: float = 0.0,
    nulls: float = 0.0,
    time: str = "ts",
    time_type: pa.DataType | None = None,
    start: int = START,
) -> pa.Table:
    """A stream of `n` rows in the order of arrival: the time column, then `columns` (name: Arrow type).

    Rows are `interval` ticks apart on average. Timestamps ascend strictly, except that a fraction `ties` of the rows
    repeats the timestamp before. `bursts` rows come one tick apart, then a pause keeps the average. With `disorder`,
    rows arrive out of order, but never after a row that is more than `disorder` ticks younger; a join with that much
    lateness loses nothing. Values are drawn from 1 to `domain`; `skew` may be a mapping from column to skew. A fraction
    `nulls` of the values is null.
    """
    rng = np.random.default_rng(seed)
    timestamps = _timestamps(rng, n, interval=interval, bursts=bursts, ties=ties, start=start)
    if disorder:
        timestamps = timestamps[np.argsort(timestamps + rng.integers(0, disorder + 1, n), kind="stable")]
    fields = {time: pa.array(timestamps).cast(time_type or pa.timestamp("us"))}
    for name, kind in ({"k": "int64"} if columns is None else columns).items():
        arrow_type = pa.type_for_alias(kind) if isinstance(kind, str) else kind
        keys = _keys(rng, n, skew if isinstance(skew, str) else skew.get(name, "uniform"), domain)
        values = _values(rng, keys, arrow_type)
        fields[name] = _with_nulls(values, rng.random(n) < nulls) if nulls else values
    return pa.table(fields)


def trades_and_quotes(n: int, seed: int = 0, *, symbols: int = 20, interval: int = 1_000) -> tuple[pa.Table, pa.Table]:
    """Trades (ts, symbol, price) and quotes (ts, symbol, bid, ask), `n` each; prices walk, in whole cents."""
    rng = np.random.default_rng(seed)
    names = np.array([f"SYM{i:03d}" for i in range(symbols)])
    middle = rng.integers(2_000, 50_000, symbols)  # the first price of each symbol, in cents

    def side() -> tuple[pa.Array, pa.Array, Integers]:
        timestamps = _timestamps(rng, n, interval=interval, bursts=1, ties=0.02, start=START)
        which = _keys(rng, n, "zipf", symbols) - 1
        # A drift that depends on time, so that a trade's price is near the quotes of the same time.
        drift = np.rint(200 * np.sin((timestamps - START) / (500 * interval))).astype(np.int64)
        return pa.array(timestamps, pa.timestamp("us")), pa.array(names[which]), middle[which] + drift

    ts, symbol, cents = side()
    price = (cents + rng.integers(-3, 4, n)) / 100
    trades = pa.table({"ts": ts, "symbol": symbol, "price": price})
    ts, symbol, cents = side()
    bid, ask = (cents - rng.integers(1, 4, n)) / 100, (cents + rng.integers(1, 4, n)) / 100
    return trades, pa.table({"ts": ts, "symbol": symbol, "bid": bid, "ask": ask})


def celljoin(n: int, seed: int = 0, *, interval: int = 1_000) -> tuple[pa.Table, pa.Table]:
    """The papers' usual benchmark since CellJoin: left (ts, x, y, z) and right (ts, a, b, c, d).

    x, y, a, b are uniform from 1 to 10,000. A band join on |x - a| <= 10 and |y - b| <= 10 keeps about one pair in
    250,000.
    """
    rng = np.random.default_rng(seed)

    def uniform(dtype: type) -> npt.NDArray[Any]:
        return rng.integers(1, 10_001, n).astype(dtype)

    def ts() -> pa.Array:
        return pa.array(_timestamps(rng, n, interval=interval, bursts=1, ties=0.0, start=START), pa.timestamp("us"))

    letters = rng.integers(ord("a"), ord("z") + 1, (n, 20)).astype(np.uint8)
    z = pa.array([row.tobytes().decode() for row in letters], pa.string())
    left = pa.table({"ts": ts(), "x": uniform(np.int32), "y": uniform(np.float32), "z": z})
    a, b, c = uniform(np.int32), uniform(np.float32), uniform(np.float64)
    return left, pa.table({"ts": ts(), "a": a, "b": b, "c": c, "d": rng.random(n) < 0.5})


def _timestamps(rng: np.random.Generator, n: int, *, interval: int, bursts: int, ties: float, start: int) -> Integers:
    if interval < 1 or bursts < 1 or not 0 <= ties <= 1:
        raise ArgumentError(f"interval, bursts, ties: got {interval}, {bursts}, {ties}; give >= 1, >= 1, 0 to 1")
    if bursts == 1:
        steps = rng.integers(1, 2 * interval, n)
    else:
        pause = max(1, interval * bursts - (bursts - 1))
        steps = np.where(np.arange(n) % bursts == 0, rng.integers(1, 2 * pause, n), 1)
    steps[rng.random(n) < ties] = 0
    steps[:1] = 0
    return start + np.cumsum(steps)


def _keys(rng: np.random.Generator, n: int, skew: Skew, domain: int) -> Integers:
    """`n` ints from 1 to `domain`."""
    match skew:
        case "uniform":
            return rng.integers(1, domain + 1, n)
        case "zipf":
            weights = 1 / np.arange(1, domain + 1) ** 1.1
            ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(n))
            return rng.permutation(domain)[np.minimum(ranks, domain - 1)] + 1
        case "one-key":
            return np.full(n, rng.integers(1, domain + 1))
        case "increasing":
            return 1 + np.arange(n) * domain // max(n, 1)
        case "multimodal":
            humps = rng.integers(1, domain + 1, 5)[rng.integers(0, 5, n)]
            return np.clip(np.rint(rng.normal(humps, domain / 100)), 1, domain).astype(np.int64)
    raise ArgumentError(f"skew: got {skew!r}; give one of {', '.join(get_args(Skew))}")


def _values(rng: np.random.Generator, keys: Integers, arrow_type: pa.DataType) -> pa.Array:
    """One value of the type per key. Equal keys give equal values, except for floats. Small types wrap around."""
    t = pa.types
    if t.is_boolean(arrow_type):
        return pa.array(keys % 2 == 0)
    if t.is_integer(arrow_type):
        largest = 2 ** (min(arrow_type.bit_width, 63) - t.is_signed_integer(arrow_type)) - 1
        return pa.array(keys % largest).cast(arrow_type)
    if t.is_floating(arrow_type):  # quarters are exact in every float type, so equal values occur
        return pa.array(keys + rng.integers(0, 4, len(keys)) / 4).cast(arrow_type, safe=False)
    if t.is_decimal(arrow_type):
        return pa.array([decimal(int(key) % 10**arrow_type.precision, arrow_type) for key in keys], arrow_type)
    if t.is_string(arrow_type) or t.is_large_string(arrow_type):
        return pa.array([f"value-{key:08d}" for key in keys], arrow_type)
    if t.is_timestamp(arrow_type) or t.is_date32(arrow_type):
        return pa.array(keys).cast(pa.int32() if t.is_date32(arrow_type) else pa.int64()).cast(arrow_type)
    raise ArgumentError(f"columns: got type {arrow_type}; give a number, boolean, string, date32 or timestamp")


def _with_nulls(values: pa.Array, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    return values.take(pa.array(np.arange(len(values)), mask=is_null))
