"""Column expressions -> unbound tree."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.errors import PredicateError
from streamjoin.predicate.expr import FALSE, TRUE, UNKNOWN, Call, Cast, Column, Constant
from streamjoin.predicate.reading.columns import ColumnExpr, col, lit, when
from streamjoin.predicate.reading.sql import parse_sql
from streamjoin.predicate.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Type,
)

X, Y = Column("x", "l"), Column("y", "r")
x, y = col("l.x"), col("r.y")
ONE, TWO = Constant(1, INT), Constant(2, INT)


def call(op, *args):
    return Call(op, args, BOOLEAN if op in ("and", "or") else NULL)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("l.x", Column("x", "l")), ("x", Column("x")), ("l.`a.b`", Column("a.b", "l")), ("`a.b`", Column("a.b")),
        ("`l`.`x``y`", Column("x`y", "l")), ("l.a b", Column("a b", "l")), ("l.größe", Column("größe", "l")),
    ],
)  # fmt: skip
def test_col(name, column):
    assert col(name).expr == column


@pytest.mark.parametrize("name", ["", ".", "l.", ".x", "a..c", "*", "l.*", "`x", 5, None])
def test_col_refuses(name):
    with pytest.raises(PredicateError, match=r"on: col\(\) was given"):
        col(name)


@pytest.mark.parametrize(
    ("built", "tree"),
    [
        (x + y, call("add", X, Y)), (x - 1, call("sub", X, ONE)), (1 - x, call("sub", ONE, X)),
        (1 + x, call("add", ONE, X)),
        (x * y, call("mul", X, Y)), (2 * x, call("mul", TWO, X)), (x / y, call("div", X, Y)),
        (1 / x, call("div", ONE, X)),
        (x // 2, call("floordiv", X, TWO)), (1 // x, call("floordiv", ONE, X)), (x % 2, call("floormod", X, TWO)),
        (1 % x, call("floormod", ONE, X)), (x**2, call("power", X, TWO)), (2**x, call("power", TWO, X)),
        (-x, call("neg", X)), (-lit(5), Constant(-5, INT)), (abs(x), call("abs", X)), (x.abs(), call("abs", X)),
        (x == y, call("eq", X, Y)), (x != y, call("ne", X, Y)), (x < y, call("lt", X, Y)), (x <= y, call("le", X, Y)),
        (x > y, call("gt", X, Y)), (x >= y, call("ge", X, Y)), (x < 1, call("lt", X, ONE)), (x > 1, call("gt", X, ONE)),
        ((x == 1) & (y == 2) & (x < y), call("and", call("eq", X, ONE), call("eq", Y, TWO), call("lt", X, Y))),
        ((x == 1) | (y == 2), call("or", call("eq", X, ONE), call("eq", Y, TWO))), (x & True, X), (False | x, X),
        (True & x, X), (x & False, call("and", X, FALSE)), (x | True, call("or", X, TRUE)), (~x, call("not", X)),
        (x.between(1, y), call("and", call("ge", X, ONE), call("le", X, Y))),
        (x.isin(1, 2), call("in", X, ONE, TWO)), (x.isin([1, 2]), call("in", X, ONE, TWO)),
        (x.isin({2, 1}), call("in", X, ONE, TWO)), (x.isin(range(1, 3)), call("in", X, ONE, TWO)), (x.isin([]), FALSE),
        (x.isin(1), call("eq", X, ONE)), (x.isin("ab"), call("eq", X, Constant("ab", STRING))),
        (x.isin(1, None), call("or", call("eq", X, ONE), UNKNOWN)),
        (x.isin(1, y), call("or", call("eq", X, ONE), call("eq", X, Y))), (x.isin(y), call("eq", X, Y)),
        (x.is_null(), call("isnull", X)), (x.is_not_null(), call("not", call("isnull", X))),
        (x.is_nan(), call("isnan", X)), (x.sqrt(), call("sqrt", X)), (x.floor(), call("floor", X)),
        (x.ceil(), call("ceil", X)),
        (x.upper(), call("upper", X)), (x.lower(), call("lower", X)), (x.trim(), call("trim", X)),
        (x.length(), call("length", X)), (x.startswith("a"), call("startswith", X, Constant("a", STRING))),
        (x.endswith("a"), call("endswith", X, Constant("a", STRING))), (x.contains(y), call("contains", X, Y)),
        (x.like("a%"), call("like", X, Constant("a%", STRING))), (x.cast("bigint"), Cast(X, BIGINT)),
        (x.cast("decimal(9, 2)"), Cast(X, Type("decimal", 9, 2))), (x.cast(pa.float32()), Cast(X, FLOAT)),
        (x.cast(int), Cast(X, BIGINT)), (x.cast(float), Cast(X, DOUBLE)), (x.cast(str), Cast(X, STRING)),
        (x.cast(bool), Cast(X, BOOLEAN)), (when(x, 1).otherwise(2), call("case", X, ONE, TWO)),
        (when(x, 1).when(y, 2).otherwise(None), call("case", X, ONE, Y, TWO, Constant(None, NULL))),
        (when(x, 1), call("case", X, ONE, Constant(None, NULL))),
        (when(x, 1) + 1, call("add", call("case", X, ONE, Constant(None, NULL)), ONE)),
    ],
)  # fmt: skip
def test_forms(built, tree):
    assert isinstance(built, ColumnExpr)
    assert built.expr == tree


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        (1, ONE), (True, TRUE), (1.5, Constant(1.5, DOUBLE)), ("a", Constant("a", STRING)),
        (None, Constant(None, NULL)),
        (Decimal("1.50"), Constant(150, Type("decimal", 3, 2))),
        (dt.timedelta(seconds=1), Constant(1_000_000, INTERVAL)),
        (dt.datetime(1970, 1, 1), Constant(0, TIMESTAMP_NTZ)), (np.float32(0.5), Constant(0.5, FLOAT)),
        (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), Constant(0, TIMESTAMP)), (np.int64(7), Constant(7, BIGINT)),
    ],
)  # fmt: skip
def test_lit(value, constant):
    assert lit(value).expr == constant


def test_numpy_scalars_on_the_left():
    assert (np.float64(2) * x).expr == call("mul", Constant(2.0, DOUBLE), X)
    assert (np.int32(1) < x).expr == call("gt", X, ONE)
    assert (dt.timedelta(seconds=1) + x).expr == call("add", Constant(1_000_000, INTERVAL), X)


def test_null_safe_equality_is_the_same_as_in_sql():
    assert x.eq_missing(y).expr == parse_sql("l.x <=> r.y")
    assert x.eq_missing(None).expr == parse_sql("l.x <=> NULL")


@pytest.mark.parametrize(
    "use",
    [
        lambda: bool(x), lambda: x == 1 and y == 2, lambda: x == 1 or y == 2, lambda: not x, lambda: 1 < x < 2,
        lambda: x in [1, 2], lambda: 1 if x else 2,
    ],
)  # fmt: skip
def test_truth_is_refused(use):
    with pytest.raises(PredicateError, match=r"on: .*&, \| and ~"):
        use()


@pytest.mark.parametrize("use", [lambda: x == None, lambda: x != None, lambda: x < None, lambda: x + None])  # noqa: E711
def test_none_is_refused(use):
    with pytest.raises(PredicateError, match=r"on: None .*\.is_null\(\)"):
        use()


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda: x == [1], "cannot hold the value"), (lambda: lit(object()), "cannot hold the value"),
        (lambda: x.cast("nonsense"), "cannot cast to 'nonsense'"), (lambda: x.cast(pa.list_(pa.int8())), "cannot cast"),
        (lambda: x.cast(pa.null()), "cannot cast"), (lambda: x.cast(list), "cannot cast"),
        (lambda: x.cast(5), "cannot cast"),
        (lambda: x.like(y), "pattern"),
    ],
)  # fmt: skip
def test_refusals(use, words):
    with pytest.raises(PredicateError) as caught:
        use()
    assert str(caught.value).startswith("on: ")
    assert words in str(caught.value)


def test_immutable_hashable_picklable():
    with pytest.raises(AttributeError):
        x.expr = Y
    with pytest.raises((AttributeError, TypeError)):
        x.other = 1
    assert len({x, y, col("l.x")}) == 3
    for built in (x < y, when(x, 1)):
        again = pickle.loads(pickle.dumps(built))
        assert type(again) is type(built)
        assert again.expr == built.expr


def test_repr_is_sql():
    assert repr(abs(x - y) <= 1) == "<ColumnExpr abs(l.x - r.y) <= 1>"
