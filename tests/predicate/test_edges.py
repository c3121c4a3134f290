"""The meaning of predicates at the edges: undecided texts, casts that do not fit, numbers of thousands of digits."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import explain
from streamjoin.predicate import plan_for
from streamjoin.predicate.evaluate import is_true, table_rows

from .. import interpreted

TEXTS = ["", "a", "b", "x", "prefix__1", "prefix__2", None]


def judge(on: str, left: pa.Table, right: pa.Table) -> int:
    """The join of all pairs against the row-wise meaning of the predicate; returns how many match."""
    matches = is_true(plan_for(on, left.schema, right.schema).predicate)
    lefts, rights = (table_rows(table, table.column_names) for table in (left, right))
    wanted = [(i, j) for i, l in enumerate(lefts) for j, r in enumerate(rights) if matches(l, r)]
    numbered = [
        table.append_column(name, pa.array(range(table.num_rows), pa.int64()))
        for table, name in ((left, "l#"), (right, "r#"))
    ]
    out = sj.join(*numbered, on=on, window=1000, order="sorted")
    found = sorted(zip(out["l#"].to_pylist(), out["r#"].to_pylist(), strict=True))
    assert found == wanted, on
    return len(wanted)


def all_texts() -> pa.Table:
    pairs = list(itertools.product(TEXTS, TEXTS))
    return pa.table({"s": [s for s, _ in pairs], "t": [t for _, t in pairs]})


@pytest.mark.parametrize(
    "on",
    [
        "l.s < r.s OR CASE WHEN l.t < r.t THEN FALSE ELSE TRUE END",
        "CASE WHEN l.t < r.t THEN FALSE ELSE TRUE END",
        "l.s < r.s OR CASE WHEN l.t <> r.t THEN FALSE ELSE TRUE END",
        "l.s < r.s OR NOT CASE WHEN l.t < r.t THEN TRUE ELSE FALSE END",
        "l.s < r.s AND CASE WHEN l.t = r.t THEN l.s <> r.t ELSE l.s >= r.t END",
        "CASE WHEN l.s < r.s THEN l.t < r.t WHEN l.s = r.s THEN l.t > r.t END",
        "CASE WHEN l.s < r.s THEN NULL ELSE l.t = r.t END",
        "CASE WHEN l.s < r.s THEN 'prefix__1' ELSE r.t END = l.t",
        "least(l.s, r.t) = r.s",
        "greatest(l.s, r.t) = l.t",
        "least(l.s, r.s) < greatest(l.t, r.t)",
        "NOT (least(l.s, r.s) >= l.t)",
        "least(l.s, r.s, 'prefix__11') <> r.t OR l.t = r.s",
        "coalesce(l.s, r.t) <= r.s",
        "l.s = r.s OR greatest(l.t, r.s) IS NULL",
        "CASE WHEN least(l.s, r.s) < l.t THEN FALSE ELSE TRUE END",
    ],
)
def test_undecided_texts_below_case_and_or(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a kernel cannot decide about a text, the conditions above must not take that for false or true."""
    interpreted.install(monkeypatch)
    texts = all_texts()
    assert 0 < judge(on, texts, texts) < texts.num_rows**2


def test_an_undecided_text_below_case_compiled() -> None:
    left, right = pa.table({"s": ["b"], "t": ["x"]}), pa.table({"s": ["a"], "t": ["x"]})
    on = "l.s < r.s OR CASE WHEN l.t < r.t THEN FALSE ELSE TRUE END"
    assert sj.join(left, right, on=on, window=9).num_rows == 1
    judge(on, all_texts().slice(10, 30), all_texts().slice(5, 30))


NUMBERS = [1000, -1000, 999, -999, 5, 1, 0, None]


@pytest.mark.parametrize(
    ("on", "matches"),
    [
        ("CAST(l.a AS decimal(3,0)) = r.a", lambda l, r: abs(l) < 1000 and l == r),
        ("CAST(l.a AS decimal(3,0)) <= r.a", lambda l, r: abs(l) < 1000 and l <= r),
        ("CAST(l.a AS decimal(3,0)) = CAST(r.a AS decimal(3,0))", lambda l, r: abs(l) < 1000 and l == r),
        ("CAST(l.a AS decimal(3,0)) < CAST(r.a AS decimal(4,1))", lambda l, r: max(abs(l), abs(r)) < 1000 and l < r),
        ("l.a >= CAST(r.a AS decimal(3,0))", lambda l, r: abs(r) < 1000 and l >= r),
        ("CAST(l.a AS decimal(3,1)) = r.a", lambda l, r: abs(l) < 100 and l == r),
        ("CAST(l.a AS decimal(3,0)) + 1 = r.a", lambda l, r: abs(l) < 1000 and l + 1 == r),
        ("CAST(CAST(l.a AS decimal(3,0)) AS int) = r.a", lambda l, r: abs(l) < 1000 and l == r),
        ("abs(CAST(l.a AS decimal(3,0)) - r.a) <= 1", lambda l, r: abs(l) < 1000 and abs(l - r) <= 1),
    ],
)
def test_a_cast_to_a_decimal_too_small_is_null(on: str, matches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    for type_ in (pa.int32(), pa.int64()):
        table = pa.table({"a": pa.array(NUMBERS, type_)})
        wanted = sum(matches(l, r) for l in NUMBERS for r in NUMBERS if l is not None and r is not None)
        assert judge(on, table, table) == wanted > 0


@pytest.mark.parametrize(
    "on",
    [
        "CAST(l.p AS decimal(1,1)) = r.d",
        "CAST(l.p AS decimal(1,1)) < r.d",
        "CAST(l.p AS decimal(1,1)) <= CAST(r.p AS decimal(1,1))",
        "CAST(l.p AS decimal(2,1)) >= CAST(r.p AS decimal(1,1))",
    ],
)
def test_true_does_not_fit_into_a_decimal_without_whole_digits(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    digits = pa.array([Decimal("0.0"), Decimal("0.9"), Decimal("1.0"), None], pa.decimal128(3, 1))
    left = pa.table({"p": [True, False, None], "d": digits.slice(0, 3)})
    right = pa.table({"p": [True, False, None, False], "d": digits})
    assert judge(on, left, right) > 0
    only_true = pa.table({"p": [True], "d": digits.slice(2, 1)})
    assert judge(on, only_true, only_true) == 0


def test_casts_to_small_decimals_compiled() -> None:
    table = pa.table({"a": pa.array([1000], pa.int32())})
    for on in ("CAST(l.a AS decimal(3,0)) = r.a", "CAST(l.a AS decimal(3,0)) = CAST(r.a AS decimal(3,0))"):
        assert sj.join(table, table, on=on, window=9).num_rows == 0


def test_a_band_of_several_bounds_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of the bounds may be NULL, which the band does not see."""
    interpreted.install(monkeypatch)
    left = pa.table({"x": pa.array([0, None, 0, 3], pa.int64()), "y": pa.array([0, 0, None, 9], pa.int64())})
    right = pa.table({"a": pa.array([0, 4, 5, 6, None, 9], pa.int64())})
    on = "r.a >= l.x AND r.a >= l.y AND r.a <= l.x + 5"
    plan = explain(left, right, on=on)
    for side, band in ((side, plan.plan.band_of(side)) for side in ("left", "right")):
        if band is not None:
            assert plan.residual[side], f"{side}: {plan.bands[side]} is all there is"
            covered = {str(source) for source in band.sources} if band.exact else set()
            assert len(covered) < 3
    assert judge(on, left, right) == 3


def test_numbers_of_thousands_of_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    left = pa.table({"s": ["1" * 5000, "-" + "9" * 5000, "0" * 5000 + "6", "5", "x"], "n": range(5)})
    right = pa.table({"s": ["7"]})
    out = sj.join(left, right, on="CAST(l.s AS int) < CAST(r.s AS int)", window=9)
    assert set(out["n"].to_pylist()) - {2} == {3}
    for type_ in ("tinyint", "bigint", "decimal(38,10)"):
        out = sj.join(left, right, on=f"CAST(l.s AS {type_}) IS NULL AND r.s = '7'", window=9)
        assert set(out["n"].to_pylist()) >= {0, 1, 4}, type_
        assert 3 not in out["n"].to_pylist()


def test_numbers_of_thousands_of_digits_among_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cast is decided pair by pair, after the batch was taken."""
    interpreted.install(monkeypatch)
    left = pa.table({"s": [str(i % 9 + 1) for i in range(300)] + ["1" * 5000], "n": range(301)})
    right = pa.table({"s": ["1"]})
    with sj.WindowJoin(left.schema, right.schema, on="CAST(concat(l.s, r.s) AS int) > 90", window=2000) as join:
        join.push_left(left)
        join.push_right(right)
        join.push_left(pa.table({"s": ["9", "2"], "n": [777, 778]}))
        assert sorted(join.finish()["n"].to_pylist()) == [*range(8, 300, 9), 777]


def text_functions() -> dict[str, Any]:
    return {
        "strip": lambda l, r: l.s.strip() == r.s,
        "strip of the other": lambda l, r: l.s == r.s.strip(),
        "strip of an expression": lambda l, r: (l.s + r.s).strip() == r.s,
    }


@pytest.mark.parametrize("name", text_functions())
def test_strip_is_refused(name: str) -> None:
    """Python's strip takes away every kind of blank, SQL's trim only spaces."""
    table = pa.table({"s": ["\ta "]})
    with pytest.raises(sj.PredicateError, match="strip"):
        sj.join(table, table, on=text_functions()[name], window=9)


@pytest.mark.parametrize("function", ["least", "greatest"])
def test_the_least_of_many_texts(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work does not double with each argument."""
    interpreted.install(monkeypatch)
    schema = pa.schema({f"c{i}": pa.string() for i in range(6)})
    arguments = ", ".join(f"{'lr'[i % 2]}.c{i // 2}" for i in range(12))
    on = f"{function}({arguments}) = 'x'"
    left = pa.table([["x", "x", "y", "x"]] * 5 + [["y", "w", "x", "x"]], schema=schema)
    right = pa.table([["x", "y", None, "a"]] * 6, schema=schema)
    matches = is_true(plan_for(on, schema, schema).predicate)
    lefts, rights = (table_rows(table, schema.names) for table in (left, right))
    wanted = sum(matches(l, r) for l in lefts for r in rights)
    assert sj.join(left, right, on=on, window=9).num_rows == wanted > 0
    explain(schema, schema, on=on)


@pytest.mark.parametrize(
    ("value", "literal"),
    [("0.0000000000000000000000000000000006", "0"), ("3000000000.00000000000000000004", "3000000000")],
)
def test_an_integer_literal_has_the_digits_it_has(value: str, literal: str) -> None:
    """Beside a decimal it takes no digits that the decimal needs, so nothing is rounded: as in Spark."""
    scale = len(value.partition(".")[2])
    rows = pa.table({"d": pa.array([value]).cast(pa.decimal128(38, scale))})
    assert sj.join(rows, rows, on=f"l.d > {literal} AND l.d = r.d", window=5).num_rows == 1
