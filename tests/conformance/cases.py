"""Fixed hard cases: inputs at which stream joins go wrong."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from streamjoin import testing

from ..predicates import BAND, KEY
from .harness import Case, numbered

Columns = dict[str, pa.Array]
N = 30
DAY = datetime.date(2024, 2, 28)


def ints(values: Sequence[int | None], kind: str = "int64") -> pa.Array:
    return pa.array(values, pa.type_for_alias(kind))


def case(
    name: str,
    on: str,
    left: Columns,
    right: Columns,
    *,
    left_time: Sequence[int] | pa.Array | None = None,
    right_time: Sequence[int] | pa.Array | None = None,
    step: int = 1,
    lateness: int | None = None,
) -> Case:
    """Timestamps default to a walk of small steps with ties, the same for both streams but shifted by one."""

    def table(columns: Columns, times: Sequence[int] | pa.Array | None, seed: int, number: str) -> pa.Table:
        count = len(next(iter(columns.values())))
        if times is None:
            times = walk(count, seed)
        ts = times if isinstance(times, pa.Array) else ints(times)
        return numbered(pa.table({"ts": ts, **columns}), number)

    return Case(
        name,
        table(left, left_time, 1, "ln"),
        table(right, right_time, 2, "rn"),
        on,
        step=step,
        lateness=lateness,
    )


def walk(count: int, seed: int, steps: Sequence[int] = (0, 0, 1, 1, 2)) -> list[int]:
    rng, t, times = random.Random(seed), 0, []
    for _ in range(count):
        t += rng.choice(steps)
        times.append(t)
    return times


def spread(values: Sequence[Any], count: int, seed: int) -> list[Any]:
    """Every value, again and again in another order."""
    rng, out = random.Random(seed), list[Any]()
    while len(out) < count:
        out += rng.sample(list(values), len(values))
    return out[:count]


def typed(values: Sequence[Any], kind: pa.DataType, count: int, seed: int) -> pa.Array:
    return pa.array(spread(values, count, seed), kind)


def hard(kind: pa.DataType, count: int, seed: int) -> pa.Array:
    values = testing.hard_values(kind)
    return values.take(pa.array(spread(range(len(values)), count, seed)))


def both(make: Callable[[int], pa.Array], name: str = "k") -> tuple[Columns, Columns]:
    return {name: make(3)}, {name: make(4)}


def _streams() -> list[Case]:
    """Shapes of the streams: lengths, ties, bursts, disorder."""
    few = both(lambda seed: typed([0, 1, 2, None], pa.int64(), N, seed))
    none = {"k": ints([])}
    one = {"k": ints([1])}
    same = {"k": ints([1] * N)}
    eq, band = KEY, BAND
    rng = random.Random(5)
    shuffled = walk(N, 6)
    rng.shuffle(shuffled)
    jittered = [t - rng.choice([0, 0, 0, 3, 9]) for t in range(0, 2 * N, 2)]
    return [
        case("both-empty", eq, none, none),
        case("left-empty", eq, none, few[1]),
        case("right-empty", eq, few[0], none),
        case("one-row-each", eq, one, one, left_time=[5], right_time=[5]),
        case("all-ties", eq, *few, left_time=[7] * N, right_time=[7] * N),
        case("many-ties", band, *few, left_time=[i // 9 for i in range(N)], right_time=[i // 5 for i in range(N)]),
        case("duplicate-rows", eq, same, same, left_time=[3] * N, right_time=[3] * (N // 2) + [4] * (N // 2)),
        case("one-key", eq, same, same),
        case("increasing-keys", eq, {"k": ints(range(N))}, {"k": ints(range(N))}),
        case("increasing-keys-band", band, {"k": ints(range(N))}, {"k": ints(range(2, N + 2))}),
        case("burst-on-the-left", eq, *few, left_time=[10] * N, right_time=range(N)),
        case("burst-on-the-right", eq, *few, left_time=range(N), right_time=[20] * (N - 1) + [21]),
        case("far-apart", eq, *few, left_time=range(N), right_time=range(10**6, 10**6 + N)),
        case("right-long-before", eq, *few, left_time=range(10**15, 10**15 + N), right_time=range(N)),
        case("out-of-order", eq, *few, left_time=shuffled, right_time=shuffled[::-1]),
        case("backwards", band, *few, left_time=range(N, 0, -1), right_time=range(N, 0, -1)),
        case("late-tuples", eq, *few, left_time=jittered, right_time=jittered[::-1], lateness=4),
        case("late-tuples-none-allowed", band, *few, left_time=jittered, right_time=jittered, lateness=0),
        case("negative-times", eq, *few, left_time=range(-N, 0), right_time=range(-N // 2, N // 2)),
        case(
            "times-at-the-ends",
            eq,
            *few,
            left_time=[-(2**63) + 1] * 9 + [0] * 9 + [2**63 - 2] * (N - 18),
            right_time=[-(2**63) + 2] * 9 + [5] * 9 + [2**63 - 3] * (N - 18),
        ),
        case(
            "small-integer-times",
            eq,
            *few,
            left_time=ints(range(N), "int8"),
            right_time=ints(range(N), "uint64"),
        ),
        case(
            "seconds-and-nanoseconds",
            eq,
            *few,
            left_time=ints(range(N)).cast(pa.timestamp("s")),
            right_time=ints([i * 500_000_000 for i in range(N)]).cast(pa.timestamp("ns")),
            step=10**9,
        ),
        case(
            "milliseconds-and-microseconds-in-zones",
            eq,
            *few,
            left_time=ints([1_700_000_000_000 + i for i in range(N)]).cast(pa.timestamp("ms", "Europe/Berlin")),
            right_time=ints([1_700_000_000_000_000 + 700 * i for i in range(N)]).cast(pa.timestamp("us", "UTC")),
            step=1000,
        ),
        case(
            "dates-and-timestamps",
            eq,
            *few,
            left_time=pa.array([DAY + datetime.timedelta(days=i // 2) for i in range(N)], pa.date32()),
            right_time=pa.array([DAY + datetime.timedelta(days=i // 3) for i in range(N)]).cast(pa.timestamp("us")),
            step=86_400 * 10**6,
        ),
        case(
            "dates-only",
            band,
            *few,
            left_time=pa.array([DAY + datetime.timedelta(days=i // 2) for i in range(N)], pa.date32()),
            right_time=pa.array([DAY + datetime.timedelta(days=i) for i in range(N)], pa.date32()),
        ),
        case("all-null-keys", eq, *both(lambda seed: pa.nulls(N, pa.int64()))),
    ]


def _conditions() -> list[Case]:
    """Constants, and NULL in every place."""
    few = both(lambda seed: typed([0, 1, 2, None], pa.int64(), N, seed))
    return [
        case("none-match", "FALSE", *few),
        case("null-predicate", "NULL", *few),
        case(
            "null-typed-column",
            "l.k = r.k OR l.k IS NULL AND r.j = 1",
            {"k": pa.nulls(N)},
            {"k": ints([1] * N), "j": ints([0, 1] * (N // 2))},
        ),
        case("nulls-in-conditions", "l.k <> r.k OR l.k IS NULL AND r.k IS NOT NULL", *few),
        case("null-safe-equality", "l.k <=> r.k", *few),
    ]


def _numbers() -> list[Case]:
    """Values at the ends of their types."""
    cases = []
    for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        type_ = pa.type_for_alias(kind)
        columns = both(lambda seed, type_=type_: hard(type_, N, seed))
        cases += [
            case(f"{kind}-equality", "l.k = r.k", *columns),
            case(f"{kind}-band", "l.k BETWEEN r.k - 1 AND r.k + 1", *columns),
        ]
    for kind in ("float16", "float32", "float64"):
        type_ = {"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64()}[kind]
        columns = both(lambda seed, type_=type_: hard(type_, 48, seed))
        cases += [
            case(f"{kind}-equality", "l.k = r.k", *columns),
            case(f"{kind}-range", "l.k < r.k", *columns),
            case(f"{kind}-band", "abs(l.k - r.k) <= 1", *columns),
        ]
    zeros = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf]
    i64, u64, f64, f32 = pa.int64(), pa.uint64(), pa.float64(), pa.float32()
    big = [2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 0, None]
    short, wide = pa.decimal128(18, 4), pa.decimal128(38, 10)
    cents = [Decimal(x) for x in ("0", "0.01", "0.010", "1.5", "-1.5", "99999999999999.9999", "-99999999999999.9999")]
    huge = [Decimal(x) for x in ("0", "0.01", "1.5", "-1.5", "9999999999999999999999999999.9999999999")]
    huge += [Decimal(f"{'9' * 14}.{'9' * 4}"), Decimal("1.5000000001"), Decimal("-9999999999999999999999999999")]
    return [
        *cases,
        case("zeros-and-nan", "l.k = r.k", *both(lambda seed: typed(zeros, f64, N, seed))),
        case("zeros-and-nan-order", "l.k >= r.k", *both(lambda seed: typed(zeros, f64, N, seed))),
        case("uint64-above-int64", "l.k = r.k", {"k": typed(big, u64, N, 1)}, {"k": typed(big, u64, N, 2)}),
        case("uint64-beside-int64", "l.k <= r.k", {"k": typed(big, u64, N, 1)}, {"k": hard(i64, N, 2)}),
        case("int64-beside-double", "l.k = r.k", {"k": hard(i64, N, 1)}, {"k": hard(f64, N, 2)}),
        case("int32-beside-float", "l.k < r.k", {"k": hard(pa.int32(), N, 1)}, {"k": hard(f32, N, 2)}),
        case("float-beside-double", "l.k <= r.k", {"k": hard(f32, N, 1)}, {"k": hard(f64, N, 2)}),
        case("overflowing-sum", "l.k + r.k > 0", *both(lambda seed: hard(i64, N, seed))),
        case("overflowing-difference", "abs(l.k - r.k) <= 1", *both(lambda seed: hard(pa.int32(), N, seed))),
        case("division-by-zero", "l.k / r.k >= 1 OR l.k % r.k = 0", *both(lambda seed: hard(pa.int32(), N, seed))),
        case("decimals", "l.k = r.k", *both(lambda seed: typed(cents, short, N, seed))),
        case(
            "decimals-band", "l.k BETWEEN r.k - 0.01 AND r.k + 0.01", *both(lambda seed: typed(cents, short, N, seed))
        ),
        case(
            "decimal-scales",
            "l.k = r.k",
            {"k": typed(cents, short, N, 1)},
            {"k": typed([Decimal("1.5"), Decimal("-1.5"), Decimal(0), None], pa.decimal128(9, 1), N, 2)},
        ),
        case("wide-decimals", "l.k = r.k", *both(lambda seed: typed(huge, wide, N, seed))),
        case("wide-decimals-range", "l.k < r.k", {"k": typed(huge, wide, N, 1)}, {"k": typed(cents, short, N, 2)}),
        case("decimal-beside-int", "l.k >= r.k", {"k": typed(cents, short, N, 1)}, {"k": hard(i64, N, 2)}),
        case(
            "small-decimals", "l.k = r.k", {"k": hard(pa.decimal32(9, 2), N, 1)}, {"k": hard(pa.decimal64(18, 3), N, 2)}
        ),
        case("booleans", "l.k = r.k", *both(lambda seed: typed([True, False, None], pa.bool_(), N, seed))),
        case("boolean-logic", "l.k AND NOT r.k", *both(lambda seed: typed([True, False, None], pa.bool_(), N, seed))),
    ]


_TEXTS = [
    *("", "a", "b", "ab", "abcdefg", "abcdefgh", "abcdefgha", "abcdefghb", "abcdefgh\0", "a\0"),
    *("é", "e\u0301", "日本語", "日本語の文字列", "🦆", "\uffff", "x" * 100, None),
]


def _texts() -> list[Case]:
    string, large, view = pa.string(), pa.large_string(), pa.string_view()
    encoded = pa.dictionary(pa.int32(), pa.string())

    def texts(kind: pa.DataType, seed: int) -> pa.Array:
        return typed(_TEXTS, pa.string(), N, seed).cast(kind)

    short = {"k": typed(["", "a", "b", "abcdefg", None], string, N, 1)}
    return [
        case("texts", "l.k = r.k", *both(lambda seed: texts(string, seed))),
        case("texts-unequal", "l.k <> r.k", *both(lambda seed: texts(string, seed))),
        case("texts-order", "l.k < r.k", *both(lambda seed: texts(string, seed))),
        case("texts-between", "l.k BETWEEN r.k AND 'abcdefghb'", *both(lambda seed: texts(string, seed))),
        case("short-and-long-texts", "l.k = r.k", short, {"k": texts(string, 2)}),
        case("large-texts", "l.k = r.k", {"k": texts(large, 1)}, {"k": texts(string, 2)}),
        case("text-views", "l.k = r.k", {"k": texts(view, 1)}, {"k": texts(large, 2)}),
        case("dictionary-texts", "l.k = r.k", {"k": texts(encoded, 1)}, {"k": texts(encoded, 2)}),
        case("dictionary-beside-view", "l.k >= r.k", {"k": texts(encoded, 1)}, {"k": texts(view, 2)}),
        case("texts-in-a-list", "l.k IN ('a', 'abcdefgh', r.k)", *both(lambda seed: texts(string, seed))),
        case(
            "text-and-number",
            "l.k = r.k AND l.j <= r.j",
            {"k": texts(string, 1), "j": ints(range(N), "int32")},
            {"k": texts(string, 2), "j": ints(range(N), "int32")},
        ),
    ]


def _moments() -> list[Case]:
    us, ns, s = pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s")
    zoned = pa.timestamp("us", "America/New_York")
    close = "l.k BETWEEN r.k - INTERVAL 1 SECOND AND r.k + INTERVAL 1 SECOND"
    return [
        case("dates", "l.k = r.k", *both(lambda seed: hard(pa.date32(), N, seed))),
        case("dates-beside-timestamps", "l.k <= r.k", {"k": hard(pa.date64(), N, 1)}, {"k": hard(us, N, 2)}),
        case("timestamps", "l.k = r.k", {"k": hard(us, N, 1)}, {"k": hard(s, N, 2)}),
        case("timestamps-band", close, *both(lambda seed: hard(us, N, seed))),
        case("nanoseconds", "l.k = r.k", *both(lambda seed: hard(ns, N, seed))),
        case("nanoseconds-beside-seconds", "l.k < r.k", {"k": hard(ns, N, 1)}, {"k": hard(s, N, 2)}),
        case("zoned-beside-plain", "l.k = r.k", {"k": hard(zoned, N, 1)}, {"k": hard(us, N, 2)}),
    ]


def _schemas() -> list[Case]:
    odd = 'a.b `c` "d" é'
    name = "`" + odd.replace("`", "``") + "`"
    nested = pa.array([[{"x": i, "y": [None, str(i)]}] if i % 3 else None for i in range(N)])
    struct = pa.array([{"a": i, "b": {"c": [float(i)]}} for i in range(N)])
    keys = ints([0, 1, 2] * (N // 3), "int32")
    small = typed([1, 2, None], pa.int32(), N, 1)
    mixed = {"k": small, "x": ints(range(N), "int32"), "y": pa.array([i / 4 for i in range(N)], pa.float32())}
    return [
        case("all-match", "TRUE", {"k": ints([0] * 260)}, {"k": ints([0] * 260)}, step=30),
        case("names-to-quote", f"l.{name} = r.`select`", {odd: keys}, {"select": keys}),
        case("nested-payload", "l.k = r.k", {"k": keys, "list": nested}, {"k": keys, "struct": struct}),
        case("same-names-on-both-sides", "l.k = r.k", {"k": keys, "v": keys}, {"k": keys, "v": nested}),
        case("equality-and-band", "l.k = r.k AND l.x BETWEEN r.x - 5 AND r.x + 5 AND l.y < r.y + 2", mixed, mixed),
        case("two-bands", "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 2", mixed, mixed),
        case("filters-only", "l.k = 1 AND r.k = 2", mixed, mixed),
        case("disjunction", "l.k = r.k AND l.x > 3 OR l.x = r.x + 1", mixed, mixed),
        case("choice", "CASE WHEN l.k > 1 THEN l.x ELSE r.x END = r.x + 1", mixed, mixed),
        case("nested-conditions", "NOT (l.x > r.x OR NOT (l.k = r.k) AND l.y IS NOT NULL)", mixed, mixed),
    ]


STREAMS = {case.name: case for case in _streams()}
"""They share two predicates, so that no kernel is compiled for the sake of timestamps."""
VALUES = {case.name: case for case in [*_conditions(), *_numbers(), *_texts(), *_moments(), *_schemas()]}
CASES = STREAMS | VALUES
assert len(CASES) == len(STREAMS) + len(VALUES)
