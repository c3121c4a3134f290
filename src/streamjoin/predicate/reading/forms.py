"""BETWEEN, IN, null-safe equality and IS TRUE, written with the operators that the tree has.

All front ends (SQL, `col()`, Python functions) use them, so that one meaning has one tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from ...errors import PredicateError
from ..expr import FALSE, UNKNOWN, Call, Constant, Expr, conjunction, disjunction, walk
from ..types import NULL

MAX_REPEATED = 1000
"""The most nodes of an operand that is written twice. With more, nested forms would grow without bounds."""
MISSING = Constant(None, NULL)
"""SQL's NULL before its type is known."""


def elements(items: Iterable[Any]) -> Sequence[Any]:
    """The items of a collection; those of a set in an order that does not depend on the process."""
    return sorted(items, key=repr) if isinstance(items, (set, frozenset)) else list(items)


def repeatable(expr: Expr, limit: int = MAX_REPEATED) -> Expr:
    """The expression, if it is small enough to stand in several places of a tree."""
    if sum(1 for _ in islice(walk(expr), limit + 1)) > limit:
        raise PredicateError(f"on: the predicate is nested too deeply: a part of over {limit} terms is repeated")
    return expr


def negative(expr: Expr) -> Expr:
    """Unary minus; a numeric or interval constant takes the sign itself."""
    match expr:
        case Constant(value, type_) if value is not None and (type_.is_numeric or type_.kind == "interval"):
            if not (type_.is_integer and value == -(2 ** (type_.bits - 1))):  # which has no counterpart
                return Constant(-value, type_)
    return Call("neg", (expr,))


def between(value: Expr, low: Expr, high: Expr) -> Expr:
    return conjunction((Call("ge", (repeatable(value), low)), Call("le", (value, high))))


def membership(value: Expr, items: Sequence[Expr]) -> Expr:
    """x IN (items): one `in` node for literals, equalities otherwise; a NULL item makes a miss unknown."""
    if not all(isinstance(item, Constant) for item in items):
        return disjunction(Call("eq", (repeatable(value), item)) for item in items)
    known = [item for item in dict.fromkeys(items) if isinstance(item, Constant) and item.value is not None]
    unknown = [UNKNOWN for item in items if isinstance(item, Constant) and item.value is None]
    if not known:
        return disjunction(unknown)
    hit = Call("eq", (value, known[0])) if len(known) == 1 else Call("in", (value, *known))
    return disjunction((hit, *unknown))


def same(a: Expr, b: Expr) -> Expr:
    """Null-safe equality, true or false even where an operand is NULL, so that its negation is right as well."""
    null_a, null_b = Call("isnull", (repeatable(a),)), Call("isnull", (repeatable(b),))
    equal = conjunction((Call("eq", (a, b)), Call("not", (null_a,)), Call("not", (null_b,))))
    return disjunction((equal, conjunction((null_a, null_b))))


def is_truth(expr: Expr, truth: bool) -> Expr:
    """`expr IS TRUE` or `expr IS FALSE`: true or false, never NULL."""
    return Call("coalesce", (expr if truth else Call("not", (expr,)), FALSE))
