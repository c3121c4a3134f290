"""The expression tree: four immutable node kinds that every front end builds and every target compiles.

A front end (SQL, column expressions, Python functions) makes an *unbound* tree: columns carry the alias that the
user wrote and no types. `bind.bind` turns it into a *bound* one: every column knows its side, every node its type.
`and`, `or` are n-ary and never nest directly, so that a long chain stays shallow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..side import Side
from .types import BOOLEAN, NULL, Type


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one stream. Unbound: `table` is what the user wrote before the dot (or None), `side` is None."""

    name: str
    table: str | None = None
    side: Side | None = None
    type: Type = NULL


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal value: a Python int, float, bool, str or None; decimals, dates, timestamps and intervals are
    whole numbers of their type's smallest unit (10**-scale, days, ticks of `type.unit`)."""

    value: Any
    type: Type


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion. Explicit ones come from the user, the others from type coercion; both mean the same."""

    arg: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function applied to arguments; `OPERATORS` below says which there are."""

    op: str
    args: tuple[Expr, ...]
    type: Type = NULL
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.type)))

    def __hash__(self) -> int:
        """Computed once: trees are looked up often, and some are large."""
        return self._hash


Expr = Column | Constant | Cast | Call

COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
ARITHMETIC = {
    "add": "+", "sub": "-", "mul": "*", "div": "/",
    "intdiv": "DIV", "rem": "%",  # SQL: towards zero, sign of the dividend
    "floordiv": "//", "floormod": "MOD_FLOOR",  # Python: downwards, sign of the divisor
}  # fmt: skip
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
FLOAT_FUNCTIONS = ("sqrt", "exp", "ln", "sin", "cos", "tan", "asin", "acos", "atan", "radians", "degrees")
"""Double in, double out."""
STRING_FUNCTIONS = (
    "length",
    "upper",
    "lower",
    "trim",
    "substring",
    "concat",
    "like",
    "startswith",
    "endswith",
    "contains",
)
OPERATORS = frozenset(
    [*COMPARISONS, *ARITHMETIC, *FLOAT_FUNCTIONS, *STRING_FUNCTIONS]
    + ["and", "or", "not", "neg", "abs", "isnull", "isnan", "in", "case", "coalesce", "least", "greatest"]
    + ["power", "atan2", "floor", "ceil"]
)
STRICT = frozenset(
    [
        *COMPARISONS,
        *ARITHMETIC,
        *FLOAT_FUNCTIONS,
        *STRING_FUNCTIONS,
        "neg",
        "abs",
        "power",
        "atan2",
        "floor",
        "ceil",
    ]
)
"""Operators that give NULL whenever an argument is NULL."""

TRUE = Constant(True, BOOLEAN)
FALSE = Constant(False, BOOLEAN)
UNKNOWN = Constant(None, BOOLEAN)


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Cast(arg):
            return (arg,)
        case Call(_, args):
            return args
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node of the tree, parents first, without recursion."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def sides(expr: Expr) -> frozenset[Side]:
    """The streams that a bound expression reads."""
    return frozenset(node.side for node in walk(expr) if isinstance(node, Column) and node.side)


def conjunction(terms: Iterable[Expr]) -> Expr:
    return _nary("and", terms, TRUE, FALSE)


def disjunction(terms: Iterable[Expr]) -> Expr:
    return _nary("or", terms, FALSE, TRUE)


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The terms that must all be true."""
    if isinstance(expr, Call) and expr.op == "and":
        return expr.args
    return () if expr == TRUE else (expr,)


def _nary(op: str, terms: Iterable[Expr], neutral: Expr, absorbing: Expr) -> Expr:
    """Join terms with `and` or `or`: flattened, without neutral or repeated terms."""
    flat: dict[Expr, None] = {}
    for term in terms:
        for part in term.args if isinstance(term, Call) and term.op == op else (term,):
            if part != neutral:
                flat[part] = None
    if absorbing in flat and all(part.type == BOOLEAN for part in flat):  # an unbound term has yet to be checked
        return absorbing
    if not flat:
        return neutral
    return next(iter(flat)) if len(flat) == 1 else Call(op, tuple(flat), BOOLEAN)
