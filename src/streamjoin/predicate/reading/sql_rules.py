"""What the constructs of SQL mean: one rule each, from sqlglot's tree to the unbound tree.

Rules are keyed by sqlglot's node class or by the function's name; what has no rule is refused by name. Where sqlglot
groups an expression otherwise than Spark does, parentheses are demanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlglot import exp

from ...errors import PredicateError
from ..expr import FALSE, FLOAT_FUNCTIONS, TRUE, Call, Cast, Column, Constant, Expr, conjunction, disjunction
from ..literals import decimal_constant
from ..render import shown
from ..types import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type, from_name
from .forms import MISSING, between, is_truth, membership, negative, repeatable, same
from .sql_literals import moment, number, span, suffixed, sum_of_units

Node = Any
"""A node of sqlglot's tree; its base class goes by different names in different versions."""
EXAMPLE = "write one condition over both streams, such as l.x BETWEEN r.a - 10 AND r.a + 10"

_BINARY: dict[type[Any], str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
    exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div", exp.IntDiv: "intdiv", exp.Mod: "rem",
}  # fmt: skip
_COMPARING = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_TESTING = (exp.Is, exp.In, exp.Between, exp.Like, exp.Not)

_FUNCTIONS: dict[str, tuple[str, int, int | None]] = {  # name: operator, least and most arguments
    **{name: (name, 1, 1) for name in (*FLOAT_FUNCTIONS, "abs", "floor", "ceil", "isnull", "isnan")},
    **{name: (name, 1, 1) for name in ("length", "upper", "lower", "trim")},
    **{name: (name, 2, 2) for name in ("power", "atan2", "startswith", "endswith", "contains")},
    **{name: (name, 2, None) for name in ("least", "greatest")},
    "ceiling": ("ceil", 1, 1), "pow": ("power", 2, 2), "mod": ("rem", 2, 2), "char_length": ("length", 1, 1),
    "substring": ("substring", 2, 3), "substr": ("substring", 2, 3), "concat": ("concat", 1, None),
    "coalesce": ("coalesce", 1, None), "nvl": ("coalesce", 2, 2), "ifnull": ("coalesce", 2, 2),
}  # fmt: skip
_CASTS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "date", "timestamp",
)  # fmt: skip
_KNOWN = ", ".join(sorted({*_FUNCTIONS, *_CASTS, "case", "cast", "if", "isnotnull", "nullif", "try_cast"}))


def convert(node: Node) -> Expr:
    """The unbound tree of a construct and all its parts."""
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node)
    if type(node) in _BINARY:
        return Call(_BINARY[type(node)], _operands(node))
    if isinstance(node, exp.Func):
        return _function(node)
    raise _refusal(node)


def _refusal(node: Node) -> PredicateError:
    """Why a construct of SQL is not in the language."""
    for classes, what in _REFUSED:
        if isinstance(node, classes):
            return PredicateError(f"on: {_source(node)} is {what}; {EXAMPLE}")
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        return PredicateError(f"on: unknown function {name.upper()} in {_source(node)}; there are: {_KNOWN}")
    return PredicateError(f"on: {_source(node)} ({type(node).__name__}) is not supported; {EXAMPLE}")


def _source(node: Node) -> str:
    try:
        return shown(node.sql(dialect="spark"))
    except Exception:  # a message must not fail on what it reports
        return type(node).__name__


def _operands(node: Node) -> tuple[Expr, Expr]:
    """Both sides of a binary operator, where Spark would group them in the same way."""
    a, b = node.this, node.expression
    if isinstance(node, _COMPARING) and (isinstance(a, _TESTING) or isinstance(b, (*_TESTING, *_COMPARING))):
        raise PredicateError(f"on: {_source(node)} can be read in two ways; put parentheses around each condition")
    return convert(a), convert(b)


def _connective(node: Node) -> Expr:
    """A chain of AND or of OR, however long, as one node."""
    terms: list[Expr] = []
    stack: list[Node] = [node]
    while stack:
        part = stack.pop()
        inner = part
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if type(inner) is type(node):
            stack += (inner.expression, inner.this)
        else:
            terms.append(convert(part))
    return conjunction(terms) if isinstance(node, exp.And) else disjunction(terms)


def _column(node: Node) -> Expr:
    if isinstance(node.this, exp.Star):
        raise _refusal(node.this)
    if not isinstance(node.this, exp.Identifier):
        raise _refusal(node)
    table, *names = [part.name for part in node.parts]
    return Column(".".join(names), table) if names else Column(table)


def _field(node: Node) -> Expr:
    """A field deeper than sqlglot's names of columns go: l.a.b.c.d."""
    inner = convert(node.this)
    if not isinstance(inner, Column) or not isinstance(node.expression, exp.Identifier):
        raise _refusal(node)
    return Column(f"{inner.name}.{node.expression.name}", inner.table)


def _literal(node: Node, sign: str = "") -> Constant:
    if node.is_string:
        return Constant(node.name, STRING)
    return number(sign + node.name)


def _negative(node: Node) -> Expr:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _literal(node.this, "-")
    return negative(convert(node.this))


def _cast(node: Node) -> Expr:
    """CAST in all its spellings, typed literals and number suffixes among them: sqlglot makes casts of these, too."""
    if node.args.get("format") or node.args.get("action"):
        raise _refusal(node)
    name = node.args["to"].sql(dialect="spark")
    type_ = TIMESTAMP if name == "TIMESTAMP_LTZ" else from_name(name)
    if type_ is None:
        there = ", ".join((*_CASTS, "timestamp_ntz"))
        raise PredicateError(f"on: {_source(node)} casts to an unknown type, {name}; there are: {there}")
    arg = node.this
    if isinstance(arg, exp.Literal):
        if not arg.is_string:
            return suffixed(arg.name, type_) or Cast(_literal(arg), type_)
        if type_.kind == "decimal" and re.fullmatch(r"\d+\.?\d*|\.\d+", arg.name):  # 5.5BD comes as a cast of '5.5'
            exact = decimal_constant(Decimal(arg.name))
            return exact if exact.type == type_ else Cast(Constant(arg.name, STRING), type_)
        if type(node) is exp.Cast and type_ in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            return moment(arg.name, type_)
    return Cast(convert(arg), type_)


def _interval(node: Node) -> Constant:
    """A day-time interval, in microseconds unless it has a finer part."""
    value, unit = node.this, node.args.get("unit")
    while isinstance(value, exp.Paren):
        value = value.this
    text = value.name if isinstance(value, exp.Literal) else ""
    if isinstance(unit, exp.IntervalSpan):
        nanos = span(text.strip(), unit.this.name.lower(), unit.expression.name.lower())
    else:
        nanos = sum_of_units(f"{text} {unit.name}" if unit else text)
    if nanos is None:
        if re.search("(?i)month|quarter|year", f"{text} {unit}"):
            raise PredicateError(f"on: {_source(node)} has no fixed length; give days, hours or seconds instead")
        raise PredicateError(
            f"on: cannot read {_source(node)}; write INTERVAL 5 SECONDS, INTERVAL '1 hour 30 minutes' or "
            "INTERVAL '1 02:03:04' DAY TO SECOND (literal amounts, weeks to nanoseconds)"
        )
    ticks, unit = (nanos, "ns") if nanos % 1000 else (nanos // 1000, "us")
    if not -(2**63) <= ticks < 2**63:
        raise PredicateError(f"on: {_source(node)} is too long; an interval holds 292,471 years of microseconds")
    return Constant(ticks, Type("interval", unit=unit))


def _function(node: Node) -> Expr:
    """A call by name. sqlglot knows most functions by class, the others come as Anonymous."""
    anonymous = isinstance(node, exp.Anonymous)
    name = node.name.lower() if anonymous else node.key
    args: list[Node] = []
    for key in node.arg_types:
        value = node.args.get(key)
        if key != "this" or not anonymous:
            args += value if isinstance(value, list) else [value] if hasattr(value, "sql") else []
    if isinstance(node.args.get("position"), str):  # LTRIM, TRIM(LEADING ...)
        raise _refusal(node)
    if name == "isnotnull" and len(args) == 1:
        return Call("not", (Call("isnull", (convert(args[0]),)),))
    if name in _CASTS and len(args) == 1:
        type_ = from_name(name)
        assert type_ is not None
        return Cast(convert(args[0]), type_)
    if name not in _FUNCTIONS or isinstance(node, exp.AggFunc):
        raise _refusal(node)
    op, least, most = _FUNCTIONS[name]
    if len(args) < least or (most is not None and len(args) > most):
        count = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        raise PredicateError(f"on: {_source(node)} has {len(args)} arguments; {name.upper()} takes {count}")
    return Call(op, tuple(map(convert, args)))


def _case(node: Node) -> Expr:
    subject = repeatable(convert(node.this)) if node.this else None
    args: list[Expr] = []
    for branch in node.args["ifs"]:
        test = convert(branch.this)
        args.append(test if subject is None else Call("eq", (subject, test)))
        args.append(convert(branch.args["true"]))
    default = node.args.get("default")
    return Call("case", (*args, MISSING if default is None else convert(default)))


def _if(node: Node) -> Expr:
    otherwise = node.args.get("false")
    if otherwise is None:
        raise PredicateError(f"on: {_source(node)} has 2 arguments; IF takes 3: IF(condition, value, otherwise)")
    return Call("case", (convert(node.this), convert(node.args["true"]), convert(otherwise)))


def _nullif(node: Node) -> Expr:
    a = repeatable(convert(node.this))
    return Call("case", (Call("eq", (a, convert(node.expression))), MISSING, a))


def _is(node: Node) -> Expr:
    if isinstance(node.expression, exp.Null):
        return Call("isnull", (convert(node.this),))
    if isinstance(node.expression, exp.Boolean):
        return is_truth(convert(node.this), bool(node.expression.this))
    raise PredicateError(f"on: {_source(node)} is no test; IS takes NULL, TRUE, FALSE or DISTINCT FROM")


def _in(node: Node) -> Expr:
    if node.args.get("query"):
        raise _refusal(node.args["query"])
    items = node.args.get("expressions")
    if not items:
        raise PredicateError(f"on: {_source(node)} has no list of values; write l.x IN (1, 2, 3)")
    return membership(convert(node.this), [convert(item) for item in items])


def _between(node: Node) -> Expr:
    if node.args.get("symmetric"):
        raise PredicateError(f"on: {_source(node)}: SYMMETRIC is not supported; use LEAST and GREATEST for the bounds")
    return between(convert(node.this), convert(node.args["low"]), convert(node.args["high"]))


def _like(node: Node) -> Expr:
    pattern = convert(node.expression) if isinstance(node.expression, (exp.Literal, exp.RawString)) else None
    if pattern is None:
        raise PredicateError(f"on: {_source(node)}: the pattern of LIKE must be one text literal, such as 'AB%'")
    like = Call("like", (convert(node.this), pattern))
    return Call("not", (like,)) if node.args.get("negate") else like


def _concat(node: Node) -> Expr:
    """a || b, CONCAT(a, b), or adjacent literals, which are one text."""
    args = [convert(part) for part in (node.expressions or (node.this, node.expression))]
    if all(isinstance(arg, Constant) and arg.type == STRING for arg in args):
        return Constant("".join(arg.value for arg in args if isinstance(arg, Constant)), STRING)
    return Call("concat", tuple(args))


_RULES: dict[type[Any], Callable[[Any], Expr]] = {
    exp.And: _connective,
    exp.Or: _connective,
    exp.Not: lambda node: Call("not", (convert(node.this),)),
    exp.Paren: lambda node: convert(node.this),
    exp.Column: _column,
    exp.Dot: _field,
    exp.Literal: _literal,
    exp.RawString: lambda node: Constant(node.name, STRING),
    exp.Boolean: lambda node: TRUE if node.this else FALSE,
    exp.Null: lambda node: MISSING,
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Interval: _interval,
    exp.NullSafeEQ: lambda node: same(*_operands(node)),
    exp.NullSafeNEQ: lambda node: Call("not", (same(*_operands(node)),)),
    exp.Case: _case,
    exp.If: _if,
    exp.Nullif: _nullif,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.DPipe: _concat,
    exp.Concat: _concat,
}
_REFUSED: tuple[tuple[tuple[type[Any], ...], str], ...] = (
    ((exp.Window, exp.RowNumber), "a window function, and a predicate sees one pair at a time"),
    ((exp.AggFunc, exp.Filter), "an aggregate function, and a predicate sees one pair at a time"),
    ((exp.Query, exp.Exists, exp.Any, exp.All), "a subquery, and a predicate sees one pair at a time"),
    ((exp.Star,), "no column; name each column"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "a parameter; put the value itself into the text"),
    ((exp.Tuple,), "a row of values; compare the columns one by one with AND"),
)
