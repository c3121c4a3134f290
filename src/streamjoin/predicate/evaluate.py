"""A bound predicate as a plain Python function of two rows: slow, simple, and the judge of all compiled forms.

Rows map column names to values as `values` describes them; `table_rows` makes them from Arrow data. The engine
itself uses this path only for what neither kernels nor columns can do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..arrow.tables import decoded
from . import values as v
from .casts import cast
from .expr import COMPARISONS, FLOAT_FUNCTIONS, Call, Cast, Column, Constant, Expr
from .types import Type, from_arrow

Row = Mapping[str, Any]
RowFunction = Callable[[Row, Row], Any]


def row_function(expr: Expr) -> RowFunction:
    """The value of a bound expression for a left and a right row."""
    match expr:
        case Constant(value):
            return lambda left, right: value
        case Column(name, side="left"):
            return lambda left, right: left[name]
        case Column(name):
            return lambda left, right: right[name]
        case Cast(arg, target):
            inner, source = row_function(arg), arg.type
            return lambda left, right: cast(inner(left, right), source, target)
        case Call(op, args, type_):
            return _call(op, args, type_)


def is_true(expr: Expr) -> Callable[[Row, Row], bool]:
    """Whether a bound predicate is true for two rows: NULL is not."""
    value = row_function(expr)
    return lambda left, right: value(left, right) is True


def evaluate_constant(expr: Expr) -> Any:
    """The value of an expression without columns."""
    return row_function(expr)({}, {})


def _call(op: str, args: tuple[Expr, ...], type_: Type) -> RowFunction:
    functions = [row_function(arg) for arg in args]
    if op in ("and", "or"):
        decisive = op == "or"

        def logic(left: Row, right: Row) -> bool | None:
            result: bool | None = not decisive
            for function in functions:
                value = function(left, right)
                if value is decisive:
                    return decisive
                if value is None:
                    result = None
            return result

        return logic
    if op == "isnull":
        return lambda left, right: functions[0](left, right) is None
    if op == "isnan":
        return lambda left, right: (x := functions[0](left, right)) is not None and x != x
    if op == "coalesce":
        return lambda left, right: next((x for f in functions if (x := f(left, right)) is not None), None)
    if op == "case":

        def case(left: Row, right: Row) -> Any:
            for condition, value in zip(functions[:-1:2], functions[1::2], strict=True):
                if condition(left, right) is True:
                    return value(left, right)
            return functions[-1](left, right)

        return case
    if op in ("least", "greatest"):
        wanted = -1 if op == "least" else 1

        def extreme(left: Row, right: Row) -> Any:
            best = None
            for function in functions:
                value = function(left, right)
                if value is not None and (best is None or v.compare(value, best) == wanted):
                    best = value
            return best

        return extreme
    strict = _strict(op, args, type_)

    def call(left: Row, right: Row) -> Any:
        operands = [function(left, right) for function in functions]
        return None if None in operands else strict(*operands)

    return call


def _strict(op: str, args: tuple[Expr, ...], type_: Type) -> Callable[..., Any]:
    """The operators that are NULL when an operand is; the operands here are never NULL."""
    types = [arg.type for arg in args]
    scales = [t.scale for t in types]
    if op in COMPARISONS:
        wanted = {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1)}[op]
        if scales[0] != scales[1]:
            return lambda a, b: v.compare_exact(a, scales[0], b, scales[1]) in wanted
        return lambda a, b: v.compare(a, b) in wanted
    if op == "in":
        return lambda x, *items: any(v.compare(x, item) == 0 for item in items)
    if op == "not":
        return lambda a: not a
    if op == "neg":
        return lambda a: v.fit(-a, type_)
    if op == "abs":
        return lambda a: v.fit(abs(a), type_)
    if op in FLOAT_FUNCTIONS:
        return lambda a: v.float_function(op, a)
    if op == "power":
        return v.power
    if op == "atan2":
        return lambda a, b: math.atan2(a + 0.0, b + 0.0)  # as Spark does: zero has no sign here
    if op in ("floor", "ceil"):
        return _rounding(op, types[0], type_)
    if op in ("add", "sub", "mul", "div", "intdiv", "rem", "floordiv", "floormod"):
        decimal = any(t.kind == "decimal" for t in types)
        return _decimal_arithmetic(op, scales, type_) if decimal else _arithmetic(op, type_)
    return _string_function(op)


_DIVISIONS: dict[str, Callable[..., Any]] = {
    "intdiv": v.truncated_division,
    "rem": v.truncated_remainder,
    "floordiv": v.floored_division,
    "floormod": v.floored_remainder,
}


def _arithmetic(op: str, type_: Type) -> Callable[..., Any]:
    if op == "div":
        return v.divide
    if op in ("add", "sub", "mul"):
        exact: Callable[..., Any] = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
        }[op]
        return lambda a, b: v.fit(exact(a, b), type_)
    divide = _DIVISIONS[op]
    return lambda a, b: None if b == 0 else v.fit(divide(a, b), type_)


def _decimal_arithmetic(op: str, scales: list[int], type_: Type) -> Callable[..., Any]:
    """Exact on fractions, then rounded half up into the result's scale; NULL on overflow."""
    first, second = 10 ** scales[0], 10 ** scales[1]
    scale = max(scales)
    align_first, align_second = 10 ** (scale - scales[0]), 10 ** (scale - scales[1])
    if op == "mul":
        return lambda a, b: v.to_decimal(a * b, first * second, type_)
    if op == "div":
        return lambda a, b: None if b == 0 else v.to_decimal(a * second, b * first, type_)
    if op in ("add", "sub"):
        sign = 1 if op == "add" else -1
        return lambda a, b: v.to_decimal(a * align_first + sign * b * align_second, 10**scale, type_)
    divide = _DIVISIONS[op]
    if op == "intdiv":
        return lambda a, b: None if b == 0 else v.wrap(divide(a * align_first, b * align_second), 64)
    one = 1 if op == "floordiv" else 10**scale
    return lambda a, b: None if b == 0 else v.to_decimal(divide(a * align_first, b * align_second), one, type_)


def _rounding(op: str, source: Type, type_: Type) -> Callable[..., Any]:
    if source.is_float:
        round_ = math.floor if op == "floor" else math.ceil
        return lambda a: v.saturate(a if math.isinf(a) or a != a else float(round_(a)), 64)
    one = 10**source.scale
    return (lambda a: a // one) if op == "floor" else (lambda a: -(-a // one))


def _string_function(op: str) -> Callable[..., Any]:
    def substring(text: str, start: int, length: int = 2**31) -> str:
        begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
        return text[max(begin, 0) : max(begin + length, 0)]

    functions: dict[str, Callable[..., Any]] = {
        "length": len,
        "upper": str.upper,
        "lower": str.lower,
        "trim": lambda text: text.strip(" "),
        "substring": substring,
        "concat": lambda *parts: "".join(parts),
        "like": lambda text, pattern: like_pattern(pattern).fullmatch(text) is not None,
        "startswith": str.startswith,
        "endswith": str.endswith,
        "contains": str.__contains__,
    }
    return functions[op]


def like_pattern(pattern: str) -> re.Pattern[str]:
    """SQL's LIKE as a regular expression: % any text, _ one character, backslash escapes."""
    parts, escaped = [], False
    for char in pattern:
        if not escaped and char == "\\":
            escaped = True
            continue
        parts.append({"%": ".*", "_": "."}.get(char, re.escape(char)) if not escaped else re.escape(char))
        escaped = False
    return re.compile("".join(parts), re.DOTALL)


def table_rows(table: pa.Table | pa.RecordBatch, columns: Iterable[str]) -> list[dict[str, Any]]:
    """The rows of Arrow data, restricted to `columns`, with values as `values` describes them."""
    names = list(columns)
    if not names:
        return [{} for _ in range(table.num_rows)]
    lists = [column_values(table.column(name)) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]


def column_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """One Arrow column as plain values."""
    column = decoded(column)
    arrow, type_ = column.type, from_arrow(column.type)
    assert type_ is not None
    if type_.kind == "decimal" and pa.types.is_decimal(arrow):
        return [None if x is None else _unscaled(x) for x in column.to_pylist()]
    if type_.kind == "date":
        return pc.cast(pc.cast(column, pa.date32()), pa.int32()).to_pylist()
    if type_.is_timestamp or type_.kind == "interval":
        factor = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}[arrow.unit]
        ticks = pc.cast(column, pa.int64()).to_pylist()
        return [None if x is None else x * factor for x in ticks]
    return column.to_pylist()


def _unscaled(number: Decimal) -> int:
    """All digits of a decimal as one whole number (never by way of a context, which would round)."""
    sign, digits, _ = number.as_tuple()
    magnitude = int("".join(map(str, digits)))
    return -magnitude if sign else magnitude
