"""What Python's values, operators and functions mean in a predicate: the tables that reading a function looks up."""

from __future__ import annotations

import ast
import datetime as dt
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ...side import Side
from ..expr import Expr
from ..render import shown
from ..types import BIGINT, BOOLEAN, DOUBLE, STRING, Type


@dataclass(frozen=True, slots=True)
class Row:
    """A whole row of one stream; `name` is the parameter that the user gave it."""

    side: Side
    name: str


@dataclass(frozen=True, slots=True)
class Known:
    """A Python value that does not depend on the data."""

    value: Any


Value = Row | Known | Expr

BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv), ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("floormod", operator.mod), ast.Pow: ("power", operator.pow),
    ast.BitAnd: ("and", operator.and_), ast.BitOr: ("or", operator.or_),
}  # fmt: skip
COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne), ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le), ast.Gt: ("gt", operator.gt), ast.GtE: ("ge", operator.ge),
}  # fmt: skip
CASTS: dict[Any, Type] = {int: BIGINT, float: DOUBLE, str: STRING, bool: BOOLEAN}
CALLS: dict[Any, tuple[str, int]] = {  # the operator and how many arguments it takes; -1: two or more
    abs: ("abs", 1), len: ("length", 1), min: ("least", -1), max: ("greatest", -1), pow: ("power", 2),
    math.fabs: ("abs", 1), math.sqrt: ("sqrt", 1), math.exp: ("exp", 1), math.log: ("ln", 1), math.sin: ("sin", 1),
    math.cos: ("cos", 1), math.tan: ("tan", 1), math.asin: ("asin", 1), math.acos: ("acos", 1),
    math.atan: ("atan", 1), math.atan2: ("atan2", 2), math.radians: ("radians", 1), math.degrees: ("degrees", 1),
    math.pow: ("power", 2), math.floor: ("floor", 1), math.ceil: ("ceil", 1), math.isnan: ("isnan", 1),
}  # fmt: skip
METHODS = {"startswith": 1, "endswith": 1, "upper": 0, "lower": 0}
CALLABLE = (*CALLS, *CASTS, dt.timedelta, dt.datetime, dt.date, Decimal, range, round)
"""What may be called on known values while the function is read."""
PLAIN = (bool, int, float, str, Decimal, dt.date, dt.timedelta, type(None))


def power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > 10_000:
        raise OverflowError("the power is too large")
    return base**exponent


def is_any(value: Any, known: Iterable[Any]) -> bool:
    return any(value is item for item in known)


def called(function: Any) -> str:
    return getattr(function, "__qualname__", None) or shown(function)


KNOWN_FUNCTIONS = ", ".join(sorted({called(function) for function in CALLABLE}))
