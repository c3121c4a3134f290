"""Predicates as Python expressions: `(col("l.x") - col("r.a")).abs() <= 10`.

A `ColumnExpr` wraps an unbound tree and never changes; every operator makes a new one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from ...errors import PredicateError
from ..expr import Call, Cast, Column, Expr, conjunction, disjunction
from ..literals import constant
from ..render import render, shown
from ..types import BIGINT, BOOLEAN, DATE, DOUBLE, NULL, STRING, TIMESTAMP_NTZ, Type, from_arrow, from_name
from .forms import MISSING, between, elements, membership, negative, same

_PYTHON_TYPES: dict[Any, Type] = {
    bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING, dt.date: DATE, dt.datetime: TIMESTAMP_NTZ,
}  # fmt: skip
_PART = r"(`(?:[^`]|``)+`|[^`.]+)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnExpr:
    """An immutable expression over the columns of both streams; made by `col`, `lit` and `when`."""

    expr: Expr
    __array_ufunc__: ClassVar[None] = None  # so that numpy scalars leave the operator to us
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {render(self.expr)}>"

    def __bool__(self) -> bool:
        raise PredicateError(
            "on: a column expression is neither true nor false before it meets data; combine conditions with &, | "
            "and ~ instead of and, or and not, put parentheses around each, write a < x < b as .between() or with &, "
            "x in (...) as .isin()"
        )

    def __add__(self, other: Any) -> ColumnExpr:
        return self._with("add", other)

    def __radd__(self, other: Any) -> ColumnExpr:
        return self._after("add", other)

    def __sub__(self, other: Any) -> ColumnExpr:
        return self._with("sub", other)

    def __rsub__(self, other: Any) -> ColumnExpr:
        return self._after("sub", other)

    def __mul__(self, other: Any) -> ColumnExpr:
        return self._with("mul", other)

    def __rmul__(self, other: Any) -> ColumnExpr:
        return self._after("mul", other)

    def __truediv__(self, other: Any) -> ColumnExpr:
        return self._with("div", other)

    def __rtruediv__(self, other: Any) -> ColumnExpr:
        return self._after("div", other)

    def __floordiv__(self, other: Any) -> ColumnExpr:
        return self._with("floordiv", other)

    def __rfloordiv__(self, other: Any) -> ColumnExpr:
        return self._after("floordiv", other)

    def __mod__(self, other: Any) -> ColumnExpr:
        return self._with("floormod", other)

    def __rmod__(self, other: Any) -> ColumnExpr:
        return self._after("floormod", other)

    def __pow__(self, other: Any) -> ColumnExpr:
        return self._with("power", other)

    def __rpow__(self, other: Any) -> ColumnExpr:
        return self._after("power", other)

    def __neg__(self) -> ColumnExpr:
        return ColumnExpr(negative(self.expr))

    def __abs__(self) -> ColumnExpr:
        return self._with("abs")

    def __eq__(self, other: Any) -> ColumnExpr:  # type: ignore[override]
        return self._with("eq", other)

    def __ne__(self, other: Any) -> ColumnExpr:  # type: ignore[override]
        return self._with("ne", other)

    def __lt__(self, other: Any) -> ColumnExpr:
        return self._with("lt", other)

    def __le__(self, other: Any) -> ColumnExpr:
        return self._with("le", other)

    def __gt__(self, other: Any) -> ColumnExpr:
        return self._with("gt", other)

    def __ge__(self, other: Any) -> ColumnExpr:
        return self._with("ge", other)

    def __and__(self, other: Any) -> ColumnExpr:
        return ColumnExpr(conjunction((self.expr, _operand(other))))

    def __rand__(self, other: Any) -> ColumnExpr:
        return ColumnExpr(conjunction((_operand(other), self.expr)))

    def __or__(self, other: Any) -> ColumnExpr:
        return ColumnExpr(disjunction((self.expr, _operand(other))))

    def __ror__(self, other: Any) -> ColumnExpr:
        return ColumnExpr(disjunction((_operand(other), self.expr)))

    def __invert__(self) -> ColumnExpr:
        return self._with("not")

    def abs(self) -> ColumnExpr:
        return self._with("abs")

    def sqrt(self) -> ColumnExpr:
        return self._with("sqrt")

    def floor(self) -> ColumnExpr:
        return self._with("floor")

    def ceil(self) -> ColumnExpr:
        return self._with("ceil")

    def between(self, low: Any, high: Any) -> ColumnExpr:
        """low <= self <= high, both ends included."""
        return ColumnExpr(between(self.expr, _operand(low), _operand(high)))

    def isin(self, *items: Any) -> ColumnExpr:
        """Whether the value is one of the items: `isin(1, 2)` or `isin([1, 2])`. None means NULL, as in SQL."""
        if len(items) == 1 and not isinstance(items[0], (str, ColumnExpr)) and isinstance(items[0], Iterable):
            items = tuple(elements(items[0]))
        return ColumnExpr(membership(self.expr, [_value(item) for item in items]))

    def is_null(self) -> ColumnExpr:
        return self._with("isnull")

    def is_not_null(self) -> ColumnExpr:
        return ~self.is_null()

    def is_nan(self) -> ColumnExpr:
        return self._with("isnan")

    def eq_missing(self, other: Any) -> ColumnExpr:
        """Equality in which NULL equals NULL; true or false, never NULL (SQL: <=>)."""
        return ColumnExpr(same(self.expr, _value(other)))

    def cast(self, to: Any) -> ColumnExpr:
        """Convert to a SQL type name such as "bigint", a pyarrow DataType, or Python's int, float, str or bool."""
        return ColumnExpr(Cast(self.expr, _type(to)))

    def length(self) -> ColumnExpr:
        return self._with("length")

    def upper(self) -> ColumnExpr:
        return self._with("upper")

    def lower(self) -> ColumnExpr:
        return self._with("lower")

    def trim(self) -> ColumnExpr:
        return self._with("trim")

    def startswith(self, prefix: Any) -> ColumnExpr:
        return self._with("startswith", prefix)

    def endswith(self, suffix: Any) -> ColumnExpr:
        return self._with("endswith", suffix)

    def contains(self, part: Any) -> ColumnExpr:
        return self._with("contains", part)

    def like(self, pattern: str) -> ColumnExpr:
        """SQL LIKE: % is any text, _ any one character, a backslash takes the next character as it is."""
        if not isinstance(pattern, str):
            raise PredicateError(f"on: like() was given {shown(pattern)}; its pattern is text such as 'AB%'")
        return self._with("like", pattern)

    def _with(self, op: str, *others: Any) -> ColumnExpr:
        return ColumnExpr(Call(op, (self.expr, *map(_operand, others))))

    def _after(self, op: str, other: Any) -> ColumnExpr:
        return ColumnExpr(Call(op, (_operand(other), self.expr)))


class When(ColumnExpr):
    """A CASE that can still grow; as long as `otherwise` has not been called, the rest is NULL."""

    __slots__ = ()

    def when(self, condition: Any, value: Any) -> When:
        assert isinstance(self.expr, Call)
        return When(Call("case", (*self.expr.args[:-1], _operand(condition), _value(value), MISSING)))

    def otherwise(self, value: Any) -> ColumnExpr:
        assert isinstance(self.expr, Call)
        return ColumnExpr(Call("case", (*self.expr.args[:-1], _value(value))))


def col(name: str) -> ColumnExpr:
    """A column: `col("l.x")`, or `col("x")` where only one stream has it. `col("l.s.x")` is a field of a struct.
    Backticks hold a name with dots."""
    parts = re.findall(_PART, name) if isinstance(name, str) and _NAME.fullmatch(name) else []
    if not parts or parts[-1] == "*":
        raise PredicateError(
            f"on: col() was given {shown(name)}; write col('l.x') or col('x'), and col('l.`a.b`') if the name has dots"
        )
    first, *names = map(_unquoted, parts)
    return ColumnExpr(Column(".".join(names), first) if names else Column(first))


def lit(value: Any) -> ColumnExpr:
    """A Python value as a constant; `lit(None)` is NULL."""
    return ColumnExpr(_value(value))


def when(condition: Any, value: Any) -> When:
    """SQL's CASE: `when(c1, v1).when(c2, v2).otherwise(v3)`."""
    return When(Call("case", (_operand(condition), _value(value), MISSING)))


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name[0] == "`" else name


def _operand(value: Any) -> Expr:
    if value is None:
        raise PredicateError("on: None compares with nothing; use .is_null(), .eq_missing(None), or lit(None)")
    return _value(value)


def _value(value: Any) -> Expr:
    return value.expr if isinstance(value, ColumnExpr) else constant(value)


def _type(to: Any) -> Type:
    if isinstance(to, pa.DataType):
        type_ = from_arrow(to)
    elif isinstance(to, str):
        type_ = from_name(to)
    else:
        type_ = to if isinstance(to, Type) else _PYTHON_TYPES.get(to) if isinstance(to, type) else None
    if type_ is None or type_ == NULL:
        raise PredicateError(
            f"on: cannot cast to {shown(to)}; give a SQL type such as 'bigint' or 'decimal(18,4)', a pyarrow type, "
            "or int, float, str or bool"
        )
    return type_
