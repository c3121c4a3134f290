"""A kit for testing stream joins: streams to order, ways to push them, hard values, and a strict comparison.

Everything random comes from `seed` alone: the same arguments give the same rows on every machine.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamjoin.errors import ArgumentError

Side: TypeAlias = Literal["left", "right"]
Skew: TypeAlias = Literal["uniform", "zipf", "one-key", "increasing", "multimodal"]
"""How values spread over their domain: evenly, a few of them nearly always, all the same, growing with
the row number, or around five humps."""
Integers: TypeAlias = npt.NDArray[np.int64]

START = 1_700_000_000_000_000
"""The first timestamp of a stream, in microseconds: in November 2023."""


# --- Streams -----------------------------------------------------------------------------------------


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

    Rows are `interval` ticks apart on average. Timestamps ascend strictly, but for a fraction `ties` of
    rows that repeat the one before. `bursts` rows come one tick apart, then a pause keeps the average.
    With `disorder`, no row arrives after one that is more than `disorder` ticks younger, so that
    a join with that much lateness loses nothing. Values are drawn from 1 to `domain`, per column if
    `skew` is a mapping; a fraction `nulls` of them is null.
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
    middle = rng.integers(2_000, 50_000, symbols)  # what each symbol costs at first, in cents

    def side() -> tuple[pa.Array, pa.Array, Integers]:
        timestamps = _timestamps(rng, n, interval=interval, bursts=1, ties=0.02, start=START)
        which = _keys(rng, n, "zipf", symbols) - 1
        # A common drift, so that a trade lies near the quotes of its own time rather than of its own row.
        drift = np.rint(200 * np.sin((timestamps - START) / (500 * interval))).astype(np.int64)
        return pa.array(timestamps, pa.timestamp("us")), pa.array(names[which]), middle[which] + drift

    ts, symbol, cents = side()
    price = (cents + rng.integers(-3, 4, n)) / 100
    trades = pa.table({"ts": ts, "symbol": symbol, "price": price})
    ts, symbol, cents = side()
    bid, ask = (cents - rng.integers(1, 4, n)) / 100, (cents + rng.integers(1, 4, n)) / 100
    return trades, pa.table({"ts": ts, "symbol": symbol, "bid": bid, "ask": ask})


def celljoin(n: int, seed: int = 0, *, interval: int = 1_000) -> tuple[pa.Table, pa.Table]:
    """The usual benchmark of the papers since CellJoin: left (ts, x, y, z) and right (ts, a, b, c, d).

    x, y, a, b are uniform from 1 to 10,000; a band join on |x - a| <= 10 and |y - b| <= 10 then keeps
    about one pair in 250,000.
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
    """One value of the type per key, equal for equal keys but for floats; a small type wraps around."""
    t = pa.types
    if t.is_boolean(arrow_type):
        return pa.array(keys % 2 == 0)
    if t.is_integer(arrow_type):
        largest = 2 ** (min(arrow_type.bit_width, 63) - t.is_signed_integer(arrow_type)) - 1
        return pa.array(keys % largest).cast(arrow_type)
    if t.is_floating(arrow_type):  # quarters are exact in every float type, so that equal values do occur
        return pa.array(keys + rng.integers(0, 4, len(keys)) / 4).cast(arrow_type, safe=False)
    if t.is_decimal(arrow_type):
        return pa.array([_decimal(int(key) % 10**arrow_type.precision, arrow_type) for key in keys], arrow_type)
    if t.is_string(arrow_type) or t.is_large_string(arrow_type):
        return pa.array([f"value-{key:08d}" for key in keys], arrow_type)
    if t.is_timestamp(arrow_type) or t.is_date32(arrow_type):
        return pa.array(keys).cast(pa.int32() if t.is_date32(arrow_type) else pa.int64()).cast(arrow_type)
    raise ArgumentError(f"columns: got type {arrow_type}; give a number, boolean, string, date32 or timestamp")


def _decimal(unscaled: int, arrow_type: pa.DataType) -> Decimal:
    """Exact however many digits there are, where arithmetic would round to those of the context."""
    sign, digits = int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((sign, digits, -arrow_type.scale))


def _with_nulls(values: pa.Array, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    return values.take(pa.array(np.arange(len(values)), mask=is_null))


# --- Pushes ------------------------------------------------------------------------------------------


def batches(table: pa.Table, sizes: int | Sequence[int] | None = None, *, seed: int = 0) -> list[pa.Table]:
    """`table` cut into pushes of `sizes`, used in turn and over again; None: of random sizes, some empty."""
    lengths: Iterator[int]
    if sizes is None:
        rng, longest = np.random.default_rng(seed), max(1, table.num_rows // 4)
        lengths = (int(rng.integers(0, longest + 1)) for _ in itertools.count())
    else:
        repeated = [sizes] if isinstance(sizes, int) else list(sizes)
        if not any(size > 0 for size in repeated) or min(repeated) < 0:
            raise ArgumentError(f"sizes: got {sizes!r}; give numbers of rows, at least one of them positive")
        lengths = itertools.cycle(repeated)
    cut, start = [], 0
    while start < table.num_rows:
        size = next(lengths)
        cut.append(table.slice(start, size))
        start += size
    return cut


def interleave(
    left_batches: Iterable[pa.Table], right_batches: Iterable[pa.Table], seed: int = 0
) -> Iterator[tuple[Side, pa.Table]]:
    """All pushes of both streams, in a random order that keeps each stream's own."""
    rng = np.random.default_rng(seed)
    waiting: dict[Side, list[pa.Table]] = {"left": list(left_batches), "right": list(right_batches)}
    turns: list[Side] = [side for side, pushes in waiting.items() for _ in pushes]
    sources = {side: iter(pushes) for side, pushes in waiting.items()}
    for turn in rng.permutation(len(turns)):
        yield turns[turn], next(sources[turns[turn]])


# --- Hard values -------------------------------------------------------------------------------------


def hard_values(arrow_type: pa.DataType) -> pa.Array:
    """The values of a type at which joins go wrong, each once, and a null."""
    t = pa.types
    if t.is_boolean(arrow_type):
        return pa.array([False, True, None])
    if t.is_integer(arrow_type):
        bits, signed = arrow_type.bit_width, t.is_signed_integer(arrow_type)
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        candidates = [low, low + 1, -1, 0, 1, high // 2, high // 2 + 1, high - 1, high]
        candidates += [2**24 + 1, 2**31, 2**32, 2**53, 2**53 + 1, -(2**53) - 1]  # floats cannot tell these
        return pa.array([*_distinct(v for v in candidates if low <= v <= high), None], arrow_type)
    if t.is_floating(arrow_type):
        info = np.finfo(arrow_type.to_pandas_dtype())
        tiny = [float(info.smallest_subnormal), float(info.tiny), float(info.eps), 1 + float(info.eps)]
        large = [float(info.max), -float(info.max), math.inf, -math.inf, math.nan]
        plain = np.array([0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, *tiny, -tiny[0], *large], info.dtype)
        return pa.array([*plain, None], arrow_type)
    if t.is_decimal(arrow_type):
        most = 10**arrow_type.precision - 1
        return pa.array([*(_decimal(v, arrow_type) for v in (-most, -1, 0, 1, most)), None], arrow_type)
    if t.is_string(arrow_type) or t.is_large_string(arrow_type):
        return pa.array([*_HARD_TEXTS, None], arrow_type)
    if t.is_binary(arrow_type) or t.is_large_binary(arrow_type):
        return pa.array([*(text.encode() for text in _HARD_TEXTS), b"\xff", b"\x80\x00", None], arrow_type)
    if t.is_date32(arrow_type):
        return pa.array([*_HARD_DATES, None], arrow_type)
    if t.is_timestamp(arrow_type) or t.is_date64(arrow_type):
        return _hard_timestamps(arrow_type)
    raise ArgumentError(f"arrow_type: got {arrow_type}; give a number, boolean, string, binary, date or timestamp")


_HARD_TEXTS = [
    *("", " ", "\0", "a", "A", "a ", "a\0", "ab", "10", "9", "NaN", "null", "'", "%", "_", "\\", "\n"),
    *("abcdefgh", "abcdefgha", "abcdefghb", "abcdefgh\0", "abcdefg"),  # the first 8 bytes tie, or nearly
    *("é", "e\u0301", "ß", "İ", "日本語", "🦆"),
    *("\uffff", "\U00010000"),  # UTF-8 and UTF-16 order these differently
    "x" * 1_000,
]
_HARD_DATES = [
    datetime.date(*ymd)
    for ymd in (
        (1, 1, 1),
        (1582, 10, 15),
        (1969, 12, 31),
        (1970, 1, 1),
        (2000, 2, 29),
        (2038, 1, 19),
        (9999, 12, 31),
    )
]


def _hard_timestamps(arrow_type: pa.DataType) -> pa.Array:
    """The years 1 to 9999, or what 64 bits hold; never the lowest int64, which numpy takes for NaT."""
    if pa.types.is_date64(arrow_type):
        days = pa.array(_HARD_DATES, pa.date32()).cast(arrow_type)
        return pa.concat_arrays([days, pa.nulls(1, arrow_type)])
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[arrow_type.unit]
    low, high = -62_135_596_800 * per_second, 253_402_300_800 * per_second - 1
    low, high = max(low, -(2**63) + 1), min(high, 2**63 - 1)
    values = [low, low + 1, -per_second, -1, 0, 1, per_second, 2**31 * per_second, high - 1, high]
    return pa.array([*_distinct(values), None], pa.int64()).cast(arrow_type)


def _distinct(values: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(values))


# --- Comparison --------------------------------------------------------------------------------------


def assert_same_rows(actual: Any, expected: Any, *, ordered: bool = False, context: object = "") -> None:
    """Raise an AssertionError that explains the first difference; each row must be there equally often.

    Takes Arrow tables, which must agree in column names and types too, or lists of tuples such as pairs
    of positions. NaN equals NaN, and -0.0 equals 0.0. `ordered` demands the same sequence.
    """
    where = f" [{context}]" if context else ""
    names: list[str] = []
    if isinstance(actual, pa.Table) and isinstance(expected, pa.Table):
        names = expected.column_names
        if _schema(actual) != _schema(expected):
            raise AssertionError(f"columns{where}: {_schema(actual)}\nexpected: {_schema(expected)}")
    found, wanted = _rows(actual), _rows(expected)
    problem = _difference_of_counts(found, wanted, names)
    if ordered and not problem:
        problem = _difference_of_order(found, wanted, names)
    if problem:
        raise AssertionError(f"{len(found)} rows instead of the expected {len(wanted)}{where}:\n{problem}")


compare = assert_same_rows

_SHOWN = 3


def _difference_of_counts(found: list[Hashable], wanted: list[Hashable], names: list[str]) -> str:
    has, needs = Counter(found), Counter(wanted)
    missing = [row for row in needs if row not in has]
    extra = [row for row in has if row not in needs]
    other = [row for row in needs if row in has and has[row] != needs[row]]
    lines = []
    for rows, counts, title in ((missing, needs, "missing"), (extra, has, "extra")):
        if rows:
            lines.append(f"{sum(counts[row] for row in rows)} {title}:")
            lines += [f"  {_show(row, names)}{_times(counts[row])}" for row in rows[:_SHOWN]]
            lines += ["  ..."] if len(rows) > _SHOWN else []
    if other:
        lines.append(f"{len(other)} present, but not as often as expected:")
        lines += [f"  {_show(row, names)} {has[row]} times instead of {needs[row]}" for row in other[:_SHOWN]]
        lines += ["  ..."] if len(other) > _SHOWN else []
    return "\n".join(lines)


def _difference_of_order(found: list[Hashable], wanted: list[Hashable], names: list[str]) -> str:
    """Where two sequences of the same rows diverge first, with the neighbours of that place."""
    at = next((i for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b), None)
    if at is None:
        return ""
    lines = [f"the same rows in another order; the sequences diverge at index {at}:"]
    for i in range(max(0, at - 1), min(len(found), at + _SHOWN)):
        mark = "  " if found[i] == wanted[i] else "->"
        lines.append(f"{mark} {i}: {_show(found[i], names)}   expected {_show(wanted[i], names)}")
    return "\n".join(lines)


def _rows(data: Any) -> list[Hashable]:
    """Rows as hashable values, in which NaN equals itself."""
    if isinstance(data, pa.Table):
        columns = [_python_values(column) for column in data.columns]
        return [_frozen(row) for row in zip(*columns, strict=True)] if columns else [()] * data.num_rows
    return [_frozen(row) for row in (data.tolist() if isinstance(data, np.ndarray) else data)]


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    """Timestamps and durations as their ticks: Python's own stop at microseconds and the year 9999."""
    in_ticks = pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)
    return (column.cast(pa.int64()) if in_ticks else column).to_pylist()


class _NaN:
    """Stands for every NaN, because no NaN equals any other."""

    def __repr__(self) -> str:
        return "nan"


_NAN = _NaN()


def _frozen(value: Any) -> Hashable:
    if isinstance(value, float | np.floating) and value != value:
        return _NAN
    if isinstance(value, Mapping):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, tuple | list):
        return tuple(_frozen(item) for item in value)
    return value if isinstance(value, Hashable) else repr(value)


def _show(row: Hashable, names: list[str]) -> str:
    if names and isinstance(row, tuple):
        return "(" + ", ".join(f"{name}={value!r}" for name, value in zip(names, row, strict=True)) + ")"
    return repr(row)


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _schema(table: pa.Table) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in table.schema)
