"""Predicates as SQL text, read with sqlglot in Spark's dialect into the unbound tree.

Every form of the language has one rule below, keyed by sqlglot's node class or by the function's name; whatever has
none is refused by name. Where sqlglot groups an expression otherwise than Spark does, parentheses are demanded.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextvars import ContextVar
from decimal import Decimal
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from ..errors import PredicateError
from .expr import FALSE, FLOAT_FUNCTIONS, TRUE, Call, Cast, Column, Constant, Expr, conjunction, disjunction
from .forms import MISSING, between, is_truth, membership, negative, repeatable, same
from .literals import decimal_constant
from .render import shown
from .sql_literals import moment, number, span, suffixed, sum_of_units
from .types import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type, from_name

Node = Any
"""A node of sqlglot's tree; its base class goes by different names in different versions."""
MAX_CHARACTERS = 1_000_000
MAX_NESTING = 200
_QUIET = ContextVar("quiet", default=False)  # sqlglot logs what it cannot read; our errors say it already
logging.getLogger("sqlglot").addFilter(lambda record: not _QUIET.get())
_SPARK = Dialect.get_or_raise("spark")
_STATEMENTS = {*_SPARK.parser_class.STATEMENT_PARSERS, TokenType.SELECT, TokenType.WITH, TokenType.VALUES}
_EXAMPLE = "write one condition over both streams, such as l.x BETWEEN r.a - 10 AND r.a + 10"

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


def parse_sql(text: str) -> Expr:
    """The unbound tree of a SQL condition; PredicateError says what is not in the language."""
    if len(text) > MAX_CHARACTERS:
        raise PredicateError(
            f"on: the SQL text {shown(text)} has {len(text):,} characters; {MAX_CHARACTERS:,} is the most, put long "
            "lists into a stream instead"
        )
    quiet = _QUIET.set(True)
    try:
        return _convert(_parse(text))
    except RecursionError:
        raise PredicateError(f"on: the SQL text {shown(text)} is nested too deeply; simplify or split it") from None
    finally:
        _QUIET.reset(quiet)


def _parse(text: str) -> Node:
    """sqlglot's tree of the text: exactly one condition, no statement."""
    tokens: list[Token] = []
    try:
        tokens = _joined(_SPARK.tokenize(text), text)
        found = [node for node in _SPARK.parser().parse_into(exp.Condition, tokens, text) if node is not None]
    except (PredicateError, RecursionError):
        raise
    except Exception as error:  # a third party's parser on text from outside: whatever goes wrong means "unreadable"
        if tokens and tokens[0].token_type in _STATEMENTS:
            raise PredicateError(f"on: {shown(text)} is a SQL statement or part of one; {_EXAMPLE}") from None
        where = ""
        if isinstance(error, SqlglotError) and (details := getattr(error, "errors", None)):
            where = f" near {shown(details[0]['highlight'])} (line {details[0]['line']}, column {details[0]['col']})"
        raise PredicateError(f"on: cannot read the SQL text {shown(text)}{where}; {_EXAMPLE}") from None
    if not found:
        raise PredicateError(f"on: the SQL text {shown(text)} is empty; {_EXAMPLE}, or TRUE for every pair")
    if len(found) > 1:
        raise PredicateError(f"on: {shown(text)} holds several statements; {_EXAMPLE}")
    return found[0]


def _joined(tokens: list[Token], text: str) -> list[Token]:
    """The tokens, with 'it''s' as one string; refuses nesting that only a very deep stack could parse."""
    out: list[Token] = []
    depth = prefixes = 0
    for token in tokens:
        kind = token.token_type
        depth += kind in (TokenType.L_PAREN, TokenType.CASE, TokenType.L_BRACKET, TokenType.L_BRACE)
        depth -= kind in (TokenType.R_PAREN, TokenType.END, TokenType.R_BRACKET, TokenType.R_BRACE)
        prefixes = prefixes + 1 if kind in (TokenType.NOT, TokenType.DASH, TokenType.TILDE) else 0
        if depth + prefixes > MAX_NESTING:
            raise RecursionError
        last = out[-1] if out and out[-1].token_type == kind == TokenType.STRING else None
        if last and last.end + 1 == token.start and text[last.end] == text[token.start]:
            joined = last.text + text[token.start] + token.text
            out[-1] = Token(kind, joined, last.line, last.col, last.start, token.end, last.comments)
        else:
            out.append(token)
    return out


def _convert(node: Node) -> Expr:
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
            return PredicateError(f"on: {_source(node)} is {what}; {_EXAMPLE}")
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        return PredicateError(f"on: unknown function {name.upper()} in {_source(node)}; there are: {_KNOWN}")
    return PredicateError(f"on: {_source(node)} ({type(node).__name__}) is not supported; {_EXAMPLE}")


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
    return _convert(a), _convert(b)


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
            terms.append(_convert(part))
    return conjunction(terms) if isinstance(node, exp.And) else disjunction(terms)


def _column(node: Node) -> Expr:
    if isinstance(node.this, exp.Star):
        raise _refusal(node.this)
    if node.args.get("db") or not isinstance(node.this, exp.Identifier):
        raise PredicateError(
            f"on: {_source(node)} has too many dots; write l.x, and l.`a.b` where the name has a dot itself"
        )
    return Column(node.name, node.text("table") or None)


def _literal(node: Node, sign: str = "") -> Constant:
    if node.is_string:
        return Constant(node.name, STRING)
    return number(sign + node.name)


def _negative(node: Node) -> Expr:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _literal(node.this, "-")
    return negative(_convert(node.this))


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
    return Cast(_convert(arg), type_)


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
        return Call("not", (Call("isnull", (_convert(args[0]),)),))
    if name in _CASTS and len(args) == 1:
        type_ = from_name(name)
        assert type_ is not None
        return Cast(_convert(args[0]), type_)
    if name not in _FUNCTIONS or isinstance(node, exp.AggFunc):
        raise _refusal(node)
    op, least, most = _FUNCTIONS[name]
    if len(args) < least or (most is not None and len(args) > most):
        count = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        raise PredicateError(f"on: {_source(node)} has {len(args)} arguments; {name.upper()} takes {count}")
    return Call(op, tuple(map(_convert, args)))


def _case(node: Node) -> Expr:
    subject = repeatable(_convert(node.this)) if node.this else None
    args: list[Expr] = []
    for branch in node.args["ifs"]:
        test = _convert(branch.this)
        args.append(test if subject is None else Call("eq", (subject, test)))
        args.append(_convert(branch.args["true"]))
    default = node.args.get("default")
    return Call("case", (*args, MISSING if default is None else _convert(default)))


def _if(node: Node) -> Expr:
    otherwise = node.args.get("false")
    if otherwise is None:
        raise PredicateError(f"on: {_source(node)} has 2 arguments; IF takes 3: IF(condition, value, otherwise)")
    return Call("case", (_convert(node.this), _convert(node.args["true"]), _convert(otherwise)))


def _nullif(node: Node) -> Expr:
    a = repeatable(_convert(node.this))
    return Call("case", (Call("eq", (a, _convert(node.expression))), MISSING, a))


def _is(node: Node) -> Expr:
    if isinstance(node.expression, exp.Null):
        return Call("isnull", (_convert(node.this),))
    if isinstance(node.expression, exp.Boolean):
        return is_truth(_convert(node.this), bool(node.expression.this))
    raise PredicateError(f"on: {_source(node)} is no test; IS takes NULL, TRUE, FALSE or DISTINCT FROM")


def _in(node: Node) -> Expr:
    if node.args.get("query"):
        raise _refusal(node.args["query"])
    items = node.args.get("expressions")
    if not items:
        raise PredicateError(f"on: {_source(node)} has no list of values; write l.x IN (1, 2, 3)")
    return membership(_convert(node.this), [_convert(item) for item in items])


def _between(node: Node) -> Expr:
    if node.args.get("symmetric"):
        raise PredicateError(f"on: {_source(node)}: SYMMETRIC is not supported; use LEAST and GREATEST for the bounds")
    return between(_convert(node.this), _convert(node.args["low"]), _convert(node.args["high"]))


def _like(node: Node) -> Expr:
    pattern = _convert(node.expression) if isinstance(node.expression, (exp.Literal, exp.RawString)) else None
    if pattern is None:
        raise PredicateError(f"on: {_source(node)}: the pattern of LIKE must be one text literal, such as 'AB%'")
    like = Call("like", (_convert(node.this), pattern))
    return Call("not", (like,)) if node.args.get("negate") else like


def _concat(node: Node) -> Expr:
    """a || b, CONCAT(a, b), or adjacent literals, which are one text."""
    args = [_convert(part) for part in (node.expressions or (node.this, node.expression))]
    if all(isinstance(arg, Constant) and arg.type == STRING for arg in args):
        return Constant("".join(arg.value for arg in args if isinstance(arg, Constant)), STRING)
    return Call("concat", tuple(args))


_RULES: dict[type[Any], Callable[[Any], Expr]] = {
    exp.And: _connective,
    exp.Or: _connective,
    exp.Not: lambda node: Call("not", (_convert(node.this),)),
    exp.Paren: lambda node: _convert(node.this),
    exp.Column: _column,
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
