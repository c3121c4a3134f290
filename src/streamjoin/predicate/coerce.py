"""Coercion: a call and its bound arguments become a typed expression, or an error that says what does not fit.

Coercion follows Spark SQL with `spark.sql.ansi.enabled=false`; text and numbers never mix without a CAST. What
depends on no column becomes a constant.
"""

from __future__ import annotations

from functools import reduce

from ..errors import PredicateError
from . import casts
from .evaluate import evaluate_constant
from .expr import (
    ARITHMETIC,
    COMPARISONS,
    FLOAT_FUNCTIONS,
    Call,
    Cast,
    Constant,
    Expr,
    children,
    conjunction,
    disjunction,
)
from .literals import parse_date, parse_timestamp
from .render import render, shown
from .types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, Type, as_decimal, common_type, decimal, finest


def fold(expr: Expr) -> Expr:
    """A constant in place of an expression that reads no column."""
    if isinstance(expr, (Call, Cast)) and all(isinstance(child, Constant) for child in children(expr)):
        return Constant(evaluate_constant(expr), expr.type)
    return expr


def cast(expr: Expr, type_: Type) -> Expr:
    """Coerce to a type that the expression is known to fit."""
    return expr if expr.type == type_ else fold(Cast(expr, type_))


def explicit_cast(expr: Expr, type_: Type) -> Expr:
    if not casts.can_cast(expr.type, type_):
        raise PredicateError(f"on: cannot cast {shown(render(expr))} from {expr.type} to {type_}")
    return cast(expr, type_)


def _mismatch(op: str, args: tuple[Expr, ...], wanted: str) -> PredicateError:
    given = " and ".join(f"{shown(render(arg))} ({arg.type})" for arg in args[:3])
    symbol = COMPARISONS.get(op) or ARITHMETIC.get(op) or op.upper()
    return PredicateError(f"on: {symbol} does not apply to {given}; {wanted}")


def typed_call(op: str, args: tuple[Expr, ...]) -> Expr:
    """A call with bound arguments: coerced, typed, or refused."""
    if op in ("and", "or", "not"):
        for arg in args:
            if arg.type.kind not in ("boolean", "null"):
                raise _mismatch(op, (arg,), "its operands must be conditions, such as l.x = r.y")
        operands = [cast(arg, BOOLEAN) for arg in args]
        if op == "not":
            return Call("not", (operands[0],), BOOLEAN)
        return conjunction(operands) if op == "and" else disjunction(operands)
    if op in COMPARISONS:
        if args[0].type == args[1].type == NULL:
            return Constant(None, BOOLEAN)
        return Call(op, comparable(op, args[0], args[1]), BOOLEAN)
    if op == "in":
        return _membership(args[0], args[1:])
    if op in ("add", "sub", "mul", "div", "intdiv", "rem", "floordiv", "floormod"):
        return _arithmetic(op, args[0], args[1])
    if op in ("neg", "abs"):
        (arg,) = args
        if not (arg.type.is_numeric or arg.type.kind in ("interval", "null")):
            raise _mismatch(op, args, "it takes a number")
        return Call(op, args, arg.type)
    if op == "isnull":
        return Call(op, args, BOOLEAN)
    if op in ("case", "coalesce", "least", "greatest"):
        return _choice(op, args)
    if op in (*FLOAT_FUNCTIONS, "power", "atan2", "isnan"):
        for arg in args:
            if not (arg.type.is_numeric or arg.type.kind == "null"):
                raise _mismatch(op, args, "it takes numbers")
        wide = args if op == "isnan" and args[0].type.is_float else tuple(cast(arg, DOUBLE) for arg in args)
        return Call(op, wide, BOOLEAN if op == "isnan" else DOUBLE)
    if op in ("floor", "ceil"):
        return _rounding(op, args[0])
    return _string_function(op, args)


def comparable(op: str, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The two operands of a comparison, coerced until they are of one kind."""
    a, b = _read_literal(a, b.type), _read_literal(b, a.type)
    types = a.type, b.type
    if any(t.kind == "decimal" for t in types) and all(t.kind == "decimal" or t.is_integer for t in types):
        types = _digits(a), _digits(b)
    type_ = common_type(*types)
    if type_ is None:
        wanted = "compare values of one kind, or use CAST"
        if "string" in (a.type.kind, b.type.kind):
            wanted = "text is compared with text only; use CAST, such as CAST(l.s AS int)"
        raise _mismatch(op, (a, b), wanted)
    if type_.kind == "decimal" and type_.scale == max(a.type.scale, b.type.scale):
        # Integers and decimals compare exactly as they are, unless 38 digits cannot hold both: then Spark rounds.
        return (cast(a, type_) if a.type == NULL else a), (cast(b, type_) if b.type == NULL else b)
    return cast(a, type_), cast(b, type_)


def _read_literal(expr: Expr, beside: Type) -> Expr:
    """A text literal beside a date or timestamp is read as one."""
    if not (isinstance(expr, Constant) and expr.type == STRING and (beside == DATE or beside.is_timestamp)):
        return expr
    zoned = beside.kind == "timestamp"
    value = parse_date(expr.value) if beside == DATE else parse_timestamp(expr.value, beside.unit, zoned)
    if value is None:
        example = "2026-01-31" if beside == DATE else "2026-01-31 12:30:00"
        raise PredicateError(f"on: {expr.value!r} is not a {beside}; write it like '{example}'")
    return Constant(value, beside)


def _membership(value: Expr, items: tuple[Expr, ...]) -> Expr:
    """x IN (literals): one `in` node where the literals have x's own type, else a disjunction of equalities."""
    pairs = [comparable("eq", value, item) for item in items]
    if all(a == value and isinstance(b, Constant) and b.type == value.type and b.value is not None for a, b in pairs):
        return Call("in", (value, *(b for _, b in pairs)), BOOLEAN)
    return disjunction(fold(Call("eq", pair, BOOLEAN)) for pair in pairs)


def _arithmetic(op: str, a: Expr, b: Expr) -> Expr:
    if a.type.kind == "null" and b.type.kind == "null":
        return Constant(None, NULL)
    if a.type.kind in ("null", "string") or b.type.kind in ("null", "string"):
        if "string" in (a.type.kind, b.type.kind):
            raise _mismatch(op, (a, b), "it takes numbers; use CAST to read text as a number, concat() to join text")
        a, b = (cast(a, b.type), b) if a.type.kind == "null" else (a, cast(b, a.type))
    if not (a.type.is_numeric and b.type.is_numeric):
        return _time_arithmetic(op, a, b)
    if a.type.is_float or b.type.is_float or "decimal" not in (a.type.kind, b.type.kind):
        if op == "intdiv":
            if a.type.is_float or b.type.is_float:
                raise _mismatch(op, (a, b), "DIV takes whole numbers or decimals; use /")
            return Call(op, (cast(a, BIGINT), cast(b, BIGINT)), BIGINT)
        type_ = DOUBLE if op == "div" else common_type(a.type, b.type)
        assert type_ is not None
        return Call(op, (cast(a, type_), cast(b, type_)), type_)
    return Call(op, (a, b), _decimal_result(op, _digits(a), _digits(b)))


def with_all_digits(written: Expr, bound: Expr) -> Expr:
    """Give an integer that was computed from constants all digits of its type; see `_digits` for a written one."""
    computed = isinstance(bound, Constant) and bound.type.is_integer and not isinstance(written, Constant)
    return cast(bound, as_decimal(bound.type)) if computed else bound


def _digits(expr: Expr) -> Type:
    """An operand's decimal type; an integer literal (but not a tinyint) counts only the digits it has."""
    if isinstance(expr, Constant) and expr.type.kind in ("smallint", "int", "bigint") and expr.value is not None:
        return Type("decimal", len(str(abs(expr.value))), 0)
    return as_decimal(expr.type)


def _decimal_result(op: str, a: Type, b: Type) -> Type:
    """Spark's rules for the precision and scale of decimal arithmetic."""
    scale = max(a.scale, b.scale)
    whole_a, whole_b = a.precision - a.scale, b.precision - b.scale
    if op in ("add", "sub"):
        return decimal(max(whole_a, whole_b) + scale + 1, scale)
    if op == "mul":
        return decimal(a.precision + b.precision + 1, a.scale + b.scale)
    if op == "div":
        fraction = max(6, a.scale + b.precision + 1)
        return decimal(whole_a + b.scale + fraction, fraction)
    if op == "intdiv":
        return BIGINT
    if op == "floordiv":
        return decimal(min(whole_a + b.scale + 1, 38), 0)
    return decimal((whole_b if op == "floormod" else min(whole_a, whole_b)) + scale, scale)


def _time_arithmetic(op: str, a: Expr, b: Expr) -> Expr:
    """Dates, timestamps and intervals: date ± days, timestamp ± interval, differences, interval × integer."""
    kinds = (a.type.kind, b.type.kind)
    moments = [x.type.is_timestamp or x.type == DATE for x in (a, b)]
    if op == "add" and moments[1]:
        return _no_time(op, a, b) if moments[0] else _time_arithmetic(op, b, a)
    if op == "mul" and "interval" in kinds and (a.type.is_integer or b.type.is_integer):
        interval = a.type if kinds[0] == "interval" else b.type
        return Call(op, tuple(cast(x, BIGINT) if x.type.is_integer else x for x in (a, b)), interval)
    if op not in ("add", "sub"):
        return _no_time(op, a, b)
    if kinds[0] == "date" and b.type.is_integer:
        return Call(op, (a, cast(b, INT)), DATE)
    if kinds == ("interval", "interval"):
        type_ = Type("interval", unit=finest(a.type, b.type))
        return Call(op, (cast(a, type_), cast(b, type_)), type_)
    if kinds[1] == "interval" and (a.type.is_timestamp or kinds[0] == "date"):
        moment = Type("timestamp" if kinds[0] == "date" else a.type.kind, unit=finest(a.type, b.type))
        return Call(op, (cast(a, moment), cast(b, Type("interval", unit=moment.unit))), moment)
    moment_ = common_type(a.type, b.type)
    if op == "sub" and moment_ is not None and (moment_.is_timestamp or moment_ == DATE):
        if moment_ == DATE:
            moment_ = Type("timestamp_ntz")
        return Call(op, (cast(a, moment_), cast(b, moment_)), Type("interval", unit=moment_.unit))
    return _no_time(op, a, b)


def _no_time(op: str, a: Expr, b: Expr) -> Expr:
    raise _mismatch(
        op, (a, b), "give numbers, or dates and timestamps with intervals, such as l.ts + INTERVAL 5 SECONDS"
    )


def _choice(op: str, args: tuple[Expr, ...]) -> Expr:
    """CASE, COALESCE, LEAST, GREATEST: all the values brought to one type."""
    is_case = op == "case"
    value_at = [i for i in range(len(args)) if not is_case or i % 2 == 1 or i == len(args) - 1]
    chosen = [args[i] for i in value_at]
    known = next((v.type for v in chosen if v.type == DATE or v.type.is_timestamp), NULL)
    chosen = [_read_literal(value, known) for value in chosen]

    def meet(a: Type, b: Type) -> Type:
        type_ = common_type(a, b)
        if type_ is None:
            raise _mismatch(op, tuple(chosen), "its values must be of one kind; use CAST")
        return type_

    type_ = reduce(meet, (value.type for value in chosen))
    new = list(args)
    for i, value in zip(value_at, chosen, strict=True):
        new[i] = cast(value, type_)
    if is_case:
        for i in range(0, len(args) - 1, 2):
            if args[i].type.kind not in ("boolean", "null"):
                raise _mismatch("WHEN", (args[i],), "a condition is needed")
            new[i] = cast(args[i], BOOLEAN)
    return Call(op, tuple(new), type_)


def _rounding(op: str, arg: Expr) -> Expr:
    if arg.type.is_integer:
        return cast(arg, BIGINT)
    if arg.type.is_float:
        return Call(op, (cast(arg, DOUBLE),), BIGINT)
    if arg.type.kind == "decimal":
        if arg.type.scale == 0:
            return arg
        return Call(op, (arg,), decimal(arg.type.precision - arg.type.scale + 1, 0))
    raise _mismatch(op, (arg,), "it takes a number")


def _string_function(op: str, args: tuple[Expr, ...]) -> Expr:
    if op == "concat":
        return Call(op, tuple(explicit_cast(arg, STRING) for arg in args), STRING)
    texts = args[:1] if op == "substring" else args
    for text in texts:
        if text.type.kind not in ("string", "null"):
            raise _mismatch(op, (text,), "it takes text; use CAST(... AS string)")
    new = tuple(cast(text, STRING) for text in texts)
    if op == "substring":
        for number in args[1:]:
            if not number.type.is_integer:
                raise _mismatch(op, (number,), "its position and length are whole numbers")
        new += tuple(cast(number, INT) for number in args[1:])
    boolean = op in ("like", "startswith", "endswith", "contains")
    return Call(op, new, BOOLEAN if boolean else INT if op == "length" else STRING)
