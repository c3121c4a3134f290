"""The three ways to compute a predicate agree: row by row, whole columns in NumPy, and compiled loops over pairs."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.compile.cache import LazyKernel
from streamjoin.errors import PredicateError
from streamjoin.predicate import col, parse
from streamjoin.predicate.analyse import make_plan
from streamjoin.predicate.bind import Binder, bind
from streamjoin.predicate.condition import KERNEL_HEADER
from streamjoin.predicate.emit import DTYPES
from streamjoin.predicate.evaluate import is_true, row_function, table_rows
from streamjoin.predicate.expr import Expr
from streamjoin.predicate.lower import Lowered, lower
from streamjoin.predicate.references import Names, filled
from streamjoin.predicate.render import render
from streamjoin.predicate.slots import SlotValues
from streamjoin.predicate.types import from_arrow
from streamjoin.predicate.vector import Frame, Program, read_numbers
from streamjoin.side import SIDES, Side, other
from streamjoin.store.scan_kernel import scan_source
from streamjoin.store.words import new_state

from ..long import LONG

NAN, INF = math.nan, math.inf
DAY = 86_400_000_000


def _ints(bits: int) -> list[int | None]:
    return [None, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, 1, -1, 2, -3, 7, -7, 10, 100, 1 - 2 ** (bits - 1)]


def _decimals(texts: str) -> list[Decimal | None]:
    return [None, *map(Decimal, texts.split())]


def _times(arrow: pa.DataType, ticks: list[int | None]) -> pa.Array:
    return pa.array(ticks, pa.int64()).cast(arrow)


TICKS = [None, 0, -1, 1, 999, 1000, -1001, DAY, -DAY, DAY - 1, 1_709_210_096_789_012, 10**12, 5_000_000]
HARD = pa.table(
    {
        "ti": pa.array(_ints(8), pa.int8()),
        "si": pa.array(_ints(16), pa.int16()),
        "i": pa.array(_ints(32), pa.int32()),
        "bi": pa.array([*_ints(64)[:10], 2**53 + 1, 2**31, -(2**31) - 1], pa.int64()),
        "f": pa.array([None, NAN, INF, -INF, -0.0, 0.0, 1.5, -2.5, 3.4e38, 1e-45, 0.1, 2.0**31, -7.0], pa.float32()),
        "d": pa.array([None, NAN, INF, -INF, -0.0, 0.0, 1.5, -2.5, 1e308, 5e-324, 0.1, 2.0**63, -2147483648.5]),
        "d5": pa.array(
            _decimals("999.99 -999.99 0.00 0.01 -0.01 1.50 -2.55 7.00 0.10 -7.00 -1.00 127.00"), pa.decimal128(5, 2)
        ),
        "d18": pa.array(
            _decimals(
                "99999999999999.9999 -99999999999999.9999 0 0.0001 -0.0001 1.5 -2.55 3 0.1 7 -1 90071992547409.93"
            ),
            pa.decimal128(18, 4),
        ),
        "d38": pa.array(
            _decimals(f"{'9' * 28}.{'9' * 10} -{'9' * 28}.{'9' * 10} 0 1e-10 -1e-10 1.5 -2.55 3 0.1 7 -1 0.3333333333"),
            pa.decimal128(38, 10),
        ),
        "u": pa.array([None, 0, 2**64 - 1, 2**63, 1, 2, 3, 7, 10, 2**53 + 1, 2**32, 100, 1], pa.uint64()),
        "s": pa.array([None, "", "a", "A", "abc", " abc ", "a_c", "abcdefgh", "abcdefghi", "é", "ß", "10", "1e1"]),
        "dt": pa.array([None, 0, -1, 1, -719162, 2932896, 19782, 19722, 100, -100, 2, 3, 4], pa.date32()),
        "ts": _times(pa.timestamp("us", "UTC"), TICKS),
        "tn": _times(pa.timestamp("us"), TICKS),
        "ns": _times(pa.timestamp("ns"), [*TICKS[:-3], 2**63 - 1, 1 - 2**63, 5_000_000_001]),
        "iv": _times(pa.duration("us"), TICKS),
        "bo": pa.array([None, True, False] * 4 + [True]),
    }
)
SCHEMA = {field.name: from_arrow(field.type) for field in HARD.schema}
ROWS = table_rows(HARD, HARD.column_names)
INTEGERS = ("ti", "si", "i", "bi")
NUMBERS = (*INTEGERS, "f", "d", "d5", "d18", "d38", "u")
LITERALS = ("0", "1", "-1", "3", "1.5", "-0.01", "1e0", "7L", "2147483647", "CAST('NaN' AS double)", "NULL")


# -- columns: NumPy against rows -----------------------------------------------------------------------------------

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
INTERVALS = ("l.iv", "r.iv", "INTERVAL 1 DAY", "INTERVAL -5 SECONDS", "INTERVAL 1 MICROSECOND", "INTERVAL 7 NANOSECOND")
TYPES = (
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(14,9)", "decimal(18,4)",
    "decimal(30,6)",
)  # fmt: skip
UNARY = ("abs", "-", "floor", "ceil", "sqrt", "exp", "ln", "sin", "cos", "tan", "asin", "acos", "atan", "radians")
TEXTS = (
    "l.s", "r.s", "'a'", "'abcdefgh'", "CAST(l.i AS string)", "CAST(r.d5 AS string)", "upper(l.s)", "trim(r.s)",
    "substring(r.s, -2, 1)", "substring(l.s, 2)", "concat(l.s, r.s)", "CAST(l.d - r.f AS string)",
    "CAST(l.d18 * r.d5 AS string)", "CAST(l.ts + r.iv AS string)", "CAST(l.dt + r.si AS string)",
)  # fmt: skip


class Writer:
    """Writes random SQL. N number, B condition, M moment, I interval, S text, C comparison, K column, A leaf."""

    NUMBERS = (
        "(N + N)", "(N - N)", "(N * N)", "(N / N)", "(N % N)", "(N div N)", "F(N)", "F(N)", "pow(N, N)", "atan2(N, N)",
        "nullif(N, N)", "coalesce(N, N)", "least(N, N)", "greatest(N, N)", "CASE WHEN B THEN N WHEN B THEN N END",
        "CAST(N AS T)", "CAST(N AS T)", "K", "K", "K", "A",
    )  # fmt: skip
    CONDITIONS = (
        "(N C N)", "(N C N)", "(N BETWEEN N AND N)", "(K IN (A, A, NULL))", "(K IN (1, 2, 3, 4, 5, 6, 7, 8, 10))",
        "(N IS NULL)", "isnan(N)", "CAST(N AS boolean)", "(S C S)", "(S LIKE 'a%')", "(S LIKE '_')", "(M C M + I)",
        "(M - M C I)", "(abs(M - M) C I * 2)", "(-(M - M) C I * -3)", "(l.dt + r.si C M)", "(l.dt - 1 C M)",
        "(CAST(M AS date) C M)", "(CAST(N AS timestamp) C M)", "(CAST(M AS T) C N)",
        "(CAST(l.bo AS timestamp) C M)", "(B AND B)", "(B OR B)", "(NOT B)", "r.bo", "l.bo", "NULL",
        "CASE WHEN B THEN B ELSE B END", "coalesce(B, B)", "(B C B)", "(S IN ('a', 'A'))",
    )  # fmt: skip
    LEAVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "M": tuple(f"{side}.{name}" for side in "lr" for name in ("dt", "ts", "tn", "ns")),
        "K": tuple(f"{side}.{name}" for side in "lr" for name in NUMBERS),
        "A": LITERALS, "I": INTERVALS, "S": TEXTS, "C": COMPARISONS, "T": TYPES, "F": UNARY,
    }  # fmt: skip

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def write(self, symbol: str, depth: int) -> str:
        if symbol in self.LEAVES:
            return self.draw(st.sampled_from(self.LEAVES[symbol]))
        forms = self.NUMBERS if symbol == "N" else self.CONDITIONS
        if depth == 0:
            forms = ("K", "A") if symbol == "N" else ("l.bo", "r.bo", "(K C K)")
        form = self.draw(st.sampled_from(forms))
        return re.sub(r"\b[NBMISCTKAF]\b", lambda match: self.write(match[0], depth - 1), form)


@st.composite
def expressions(draw: Any) -> str:
    return Writer(draw).write(draw(st.sampled_from("NB")), 3)


def bound(on: Any) -> Expr | None:
    """The typed expression, or None where the text is (rightly) refused."""
    try:
        return Binder(SCHEMA, SCHEMA, ("l", "r")).bind(parse(on))
    except PredicateError:
        return None


def all_pairs() -> tuple[list[tuple[dict[str, Any], dict[str, Any]]], Frame]:
    n = HARD.num_rows
    left, right = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    arrays: dict[Any, pa.Array] = {}
    for name in HARD.column_names:
        column = HARD.column(name).combine_chunks()
        arrays["left", name], arrays["right", name] = column.take(pa.array(left)), column.take(pa.array(right))
    return [(a, b) for a in ROWS for b in ROWS], Frame(n * n, arrays)


PAIRS, FRAME = all_pairs()


def same(a: Any, b: Any) -> bool:
    """Equal to the bit: NaN equals NaN, but 0.0 is not -0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a is b if a is None or b is None else bool(a == b)


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_columns_agree_with_rows(sql: str) -> None:
    check_columns(sql)


def check_columns(on: Any) -> None:
    expr = bound(on)
    if expr is None or expr.type.kind not in DTYPES:
        return
    ((values, valid),) = Program([expr]).run(FRAME)
    function = row_function(expr)
    for k, (left, right) in enumerate(PAIRS):
        expected = function(left, right)
        actual = values.item(k) if valid is None or valid[k] else None
        assert same(actual, expected), (on, left, right, actual, expected)


# -- pairs: compiled loops against rows ----------------------------------------------------------------------------

PREDICATES: list[Any] = [
    # whole numbers: wrapping, division by zero and by -1, the smallest integer
    "l.i + r.i > l.i - r.i",
    "l.ti * r.ti < 100 OR l.ti - r.ti > r.si",
    "l.bi * r.bi = r.bi * -3",
    "l.i div r.i = l.i",
    "l.bi div r.bi >= -1",
    "l.bi % r.bi <= 0",
    "l.ti % r.ti = 1 OR mod(r.si, l.si) = -1",
    "l.i / r.i < 0.5",
    "abs(l.i - r.i) <= 10",
    "abs(l.ti + r.ti) < 0 OR -(l.bi + r.bi) = r.bi",
    (col("l.i") // col("r.i") <= col("l.i") % col("r.i")) | (col("l.bi") // col("r.bi") == -1),
    # floats: NaN, infinities, signed zeros, two widths
    "l.f = r.d",
    "l.f < r.d AND l.d <= r.f",
    "l.f + r.f > l.d - r.d",
    "l.d * r.f <> r.d",
    "l.d % r.d = l.d",
    "l.f % r.f < 0",
    "l.d / r.d >= 1",
    (col("l.d") // col("r.d") > col("l.f") // col("r.f")) | (col("l.d") % col("r.d") < col("l.f") % col("r.f")),
    "abs(l.d - r.d) <= 1.5 OR isnan(l.f + r.f)",
    "CAST(l.d + r.d AS int) = CAST(l.f - r.f AS smallint)",
    "CAST(l.d * r.d AS bigint) > r.bi",
    "floor(l.d + r.f) <= ceil(r.d - l.f)",
    "sqrt(l.d - r.d) < exp(r.f - l.f)",
    "ln(l.d - r.d) > -1 OR power(l.d, r.d) = 1",
    "sin(l.f + r.f) > cos(l.d * r.d) OR tan(l.d - r.d) = 0",
    "asin(l.d - r.f) <= acos(r.d - l.f) AND atan(l.d + r.d) < atan2(l.f, r.f)",
    "radians(l.d - r.d) < degrees(l.f + r.f)",
    # decimals, narrow and near the limit of 64 bits
    "l.d5 = r.d18",
    "l.d5 + r.d5 > r.i OR l.d5 * r.d5 = 0",
    "l.d18 < r.d38 AND l.d18 - r.d5 >= -1.005",
    "floor(l.d5 + r.d5) = ceil(l.d5 - r.d5)",
    "CAST(l.d5 - r.d5 AS int) > CAST(l.d5 + r.i AS double)",
    "CAST(l.i - r.i AS decimal(5,2)) < r.d5 + l.d5",
    # decimals of two and four words, and uint64
    "l.d18 * r.d18 > 9000 OR l.d18 * r.d5 = 0.0001",
    "l.d38 + r.d38 > l.d38 - r.d5",
    "l.d38 * r.d38 > 1.5 OR l.d38 * r.d18 = -0.255",
    "l.d18 / r.d5 >= 1 OR l.d5 / r.i = -0.85",
    "l.d38 / r.d38 < 1",
    "l.d18 % r.d5 = 0.01 OR l.d38 % r.d38 < 0",
    "l.d18 div r.d5 = -1 OR l.d38 div r.d5 > 100",
    (col("l.d38") // col("r.d18") < col("l.d18") % col("r.d38")) | (col("l.d5") // col("r.d18") == -1),
    "abs(l.d38 - r.d38) <= 1.5 OR -(l.d38 + r.d18) = r.d38",
    "floor(l.d38 + r.d5) = ceil(l.d38 - r.d5)",
    "CAST(l.d38 + r.d38 AS bigint) > r.bi OR CAST(l.d18 * r.d18 AS smallint) = 2",
    "CAST(l.d18 * r.d18 AS decimal(10,2)) IS NULL OR CAST(l.ts + r.iv AS decimal(20,3)) < r.d18",
    "CAST(l.d5 - r.d18 AS timestamp) < r.ts OR CAST(l.d38 + r.d38 AS timestamp) > l.ts",
    "CAST(l.d + r.d AS decimal(10,2)) >= r.d5 OR CAST(l.f - r.f AS decimal(14,8)) = 0.1",
    "CAST(l.u + r.u AS float) > l.f OR CAST(l.u - r.bi AS float) = r.f",
    "least(l.d38, r.d18) = greatest(l.d5, r.d38) OR CAST(l.d38 - r.d38 AS boolean)",
    "CASE WHEN l.i > r.i THEN l.d38 ELSE r.d5 END < coalesce(l.d18 + r.d38, 0.5)",
    "CAST(l.d18 * r.d18 AS double) > l.d OR CAST(l.d38 + r.d38 AS float) = l.f",
    "l.u + r.u > l.u - r.u",
    "l.u * r.u = 3 OR l.u * r.u > 18446744073709551615",
    "l.u = r.u OR l.u < r.bi",
    "l.u = r.d38",
    "l.d38 <> r.d38 AND l.d38 IN (r.d18, 3, 0.1)",
    "l.u - r.u IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) OR l.u % r.u = 1",
    # dates, timestamps of two units, intervals
    "l.ts BETWEEN r.tn - INTERVAL 1 SECOND AND r.ns + INTERVAL 7 NANOSECONDS",
    "abs(l.ts - r.ts) < INTERVAL 1 DAY OR l.ns - r.ns = r.iv * 1000",
    "l.dt + r.ti <= l.ts + r.iv",
    "CAST(l.ts + r.iv AS smallint) < CAST(l.ns + r.iv AS double) AND CAST(l.f + r.f AS timestamp) <> r.ts",
    "l.dt - r.dt > INTERVAL 100 DAYS AND CAST(l.ts + r.iv AS date) <> r.dt",
    # NULLs, CASE and text
    "(l.bo OR r.bo) = (l.i < r.i AND r.bo)",
    "CASE WHEN l.i > r.i THEN l.bi WHEN r.bo THEN r.bi END > coalesce(l.si + r.si, -1)",
    "least(l.i, r.i) = greatest(l.ti, r.ti) OR l.i + r.i IN (0, 1, -1) OR l.i + r.i IS NULL",
    "l.s <= r.s AND NOT (l.s = r.s AND l.i <=> r.i)",
    "l.s = r.s OR (l.f < r.d) IS NULL",
    "l.s || r.s LIKE '%a_c' AND startswith(r.s, trim(l.s))",
]


Pairs = set[tuple[int, int]]


def matching(expr: Expr) -> Pairs:
    """The matching pairs of HARD with itself, row by row."""
    check = is_true(expr)
    return {(l, r) for l, left in enumerate(ROWS) for r, right in enumerate(ROWS) if check(left, right)}


def rechecked(lowered: Lowered, pairs: Pairs) -> Pairs:
    checks = [is_true(condition) for condition in (*lowered.recheck, *lowered.recheck_long_text)]
    return {(l, r) for l, r in pairs if all(check(ROWS[l], ROWS[r]) for check in checks)}


def slots_of_hard(lowered: Lowered, side: Side) -> SlotValues:
    arrays: dict[Any, pa.Array] = {(side, name): HARD.column(name).combine_chunks() for name in HARD.column_names}
    values = lowered.sides[side].run(Frame(HARD.num_rows, arrays))
    assert [str(column.dtype) for column in values.columns] == [slot.dtype for slot in lowered.slots[side]]
    return values


class Conditions:
    """One kernel with the conditions of many predicates in one loop over all pairs: much less to compile than a scan
    for each."""

    def __init__(self) -> None:
        self.lowered: list[Lowered] = []
        self._live: list[Any] = []
        self._parameters: list[str] = []
        self._arguments: list[Any] = []
        self._body = ""

    def add(self, lowered: Lowered) -> None:
        number = len(self.lowered)
        self.lowered.append(lowered)
        live = []
        for side in SIDES:
            values = slots_of_hard(lowered, side)
            self._parameters += [f"{side}{number}_{slot}" for slot in lowered.tested[side]]
            self._arguments += [values.columns[slot] for slot in lowered.tested[side]]
            live.append(np.ones(HARD.num_rows, np.bool_) if values.live is None else values.live)
        self._live.append(live[0][:, None] & live[1])
        names = (Names(f"left{number}_", "[l]"), Names(f"right{number}_", "[r]"), Names(f"t{number}_", ""), None)
        for line in (*lowered.lines, f"out[{number}, l, r] = {lowered.condition}"):
            self._body += f"        {filled(line, *names)}\n"

    def pairs(self) -> list[Pairs]:
        """The matching pairs of each predicate."""
        rows = HARD.num_rows
        out = np.zeros((len(self.lowered), rows, rows), np.bool_)
        source = f"""{KERNEL_HEADER}
@njit(nogil=True, cache=True, error_model="numpy")
def conditions({", ".join(self._parameters)}, rows, out):
    for pair in range(rows * rows):
        l, r = pair // rows, pair % rows
{self._body}    return 0
"""
        LazyKernel(source, "conditions")(*self._arguments, rows, out)
        return [
            rechecked(lowered, {(int(l), int(r)) for l, r in np.argwhere(hits & live)})
            for lowered, hits, live in zip(self.lowered, out, self._live, strict=True)
        ]


@pytest.mark.parametrize("first", range(0, len(PREDICATES), 11))
def test_compiled_conditions_agree_with_rows(first: int) -> None:
    conditions = Conditions()
    exprs = [bind(parse(on), SCHEMA, SCHEMA) for on in PREDICATES[first : first + 11]]
    for expr in exprs:
        conditions.add(lower(make_plan(expr)))
    for expr, pairs in zip(exprs, conditions.pairs(), strict=True):
        assert pairs
        assert pairs == matching(expr), render(expr)


def scanned_pairs(lowered: Lowered, stored: Side) -> Pairs:
    """The matching pairs of HARD with itself, by the compiled scan."""
    rows: dict[Side, Any] = {}
    slots: dict[Side, list[Any]] = {}
    for side in SIDES:
        values = slots_of_hard(lowered, side)
        rows[side] = np.arange(HARD.num_rows) if values.live is None else np.flatnonzero(values.live)
        slots[side] = [values.columns[number][rows[side]] for number in lowered.tested[side]]
    probing = other(stored)
    zero, one = np.zeros(HARD.num_rows, np.int64), np.ones(HARD.num_rows, np.int64)
    places, out = np.empty((2, 1 << 14), np.int32), np.empty((2, 1 << 14), np.int64)
    first, last = zero[: len(rows[probing])], np.full(len(rows[probing]), len(rows[stored]))
    count = LazyKernel(scan_source(lowered, stored), "scan")(
        *slots[stored], zero, *slots[probing], first, last, zero[: len(first)], one[: len(first)], 8, 1 << 40,
        len(rows[stored]), rows[probing], 0, 0, rows[stored], places, out, new_state(),
    )  # fmt: skip
    found = {probing: out[0, :count], stored: out[1, :count]}
    pairs = [(int(l), int(r)) for l, r in zip(found["left"], found["right"], strict=True)]
    assert len(pairs) == len(set(pairs))
    return rechecked(lowered, set(pairs))


SCANNED: list[Any] = [  # one for each form of the loop that looks for hits
    "abs(l.i - r.i) <= 10",
    "l.i BETWEEN r.si AND r.bi AND l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 DAY",
    "l.s <= r.s AND NOT (l.s = r.s AND l.i <=> r.i)",
]
if LONG:
    SCANNED += PREDICATES


@pytest.mark.parametrize("number", range(len(SCANNED)), ids=lambda number: str(SCANNED[number]))
def test_scanned_pairs_agree_with_rows(number: int) -> None:
    """A few predicates in the short run, since each takes a second to compile."""
    expr = bind(parse(SCANNED[number]), SCHEMA, SCHEMA)
    expected = matching(expr)
    assert expected
    assert scanned_pairs(lower(make_plan(expr)), "right" if number % 2 else "left") == expected


@pytest.mark.parametrize("on", PREDICATES, ids=map(str, PREDICATES))
def test_columns_agree_on_the_fixed_list(on: Any) -> None:
    check_columns(on)


LAYOUTS = [
    *(pa.type_for_alias(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")),
    pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.date64(), pa.decimal128(18, 2),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
]  # fmt: skip


@pytest.mark.parametrize("type_", LAYOUTS, ids=str)
def test_numbers_are_the_same_in_every_layout(type_: pa.DataType) -> None:
    """Coded by a dictionary, cut out of a longer array, without a row."""
    whole = pa.int64() if pa.types.is_timestamp(type_) or type_ == pa.date64() else pa.int32()
    plain = pa.array([0, 86_400_000 if type_ == pa.date64() else 1, None, 0], whole).cast(type_)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        plain = pa.concat_arrays([plain, pa.array([100, 17], pa.int64()).cast(type_)])
    rows = len(plain)
    coded = pa.DictionaryArray.from_arrays(pa.array(range(rows), pa.int8()), plain)
    longer = pa.concat_arrays([plain.slice(1, 2), plain, plain]).slice(2, rows)
    kind = from_arrow(type_)
    assert kind is not None
    values, valid = read_numbers(plain, kind)
    assert valid is not None
    assert valid.tolist() == [value is not None for value in plain.to_pylist()]
    for layout in (coded, longer):
        same, also_valid = read_numbers(layout, kind)
        assert also_valid is not None
        assert also_valid.tolist() == valid.tolist()
        assert same.dtype == values.dtype
        assert same[valid].tolist() == values[valid].tolist()
    for layout in (coded, plain):
        assert len(read_numbers(layout.slice(0, 0), kind)[0]) == 0
