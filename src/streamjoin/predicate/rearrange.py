"""Rearranging comparisons: the stored side's terms on one side of the operator, everything else on the other.

`l.a - r.a <= 3` becomes `l.a <= r.a + 3` with the left stored. Integers wrap and floats round, so both say the same
only for tuples whose terms are small. The caller gets the terms, so that it can say which tuples these are.
"""

from __future__ import annotations

from ..errors import PredicateError
from ..side import Side
from .coerce import fold, typed_call
from .expr import MIRRORED, Call, Cast, Constant, Expr, sides

Terms = tuple[Expr, ...]


def isolate(term: Call, stored: Side) -> tuple[str, Expr, Expr, Terms] | None:
    """A comparison as (op, key, bound, terms) with the key over the stored side and the bound over the other;
    `terms` are the summands of both if some had to be moved."""
    a, b = term.args
    for key, bound, op in ((a, b, term.op), (b, a, MIRRORED[term.op])):
        if sides(key) == {stored} and stored not in sides(bound):
            return op, key, bound, ()
    terms = [*_terms(a, 1), *_terms(b, -1)]
    if any(len(sides(t)) == 2 for t, _ in terms):
        return None
    own = [(t, s) for t, s in terms if sides(t) == {stored}]
    moved = [(t, -s) for t, s in terms if sides(t) != {stored}]
    op = term.op
    if own and all(sign < 0 for _, sign in own):
        own, moved, op = [(t, -s) for t, s in own], [(t, -s) for t, s in moved], MIRRORED[op]
    if not own or not moved:
        return None
    key_, bound_ = signed_sum(own), signed_sum(moved)
    return None if key_ is None or bound_ is None else (op, key_, bound_, tuple(t for t, _ in terms))


def constants_moved(op: str, key: Expr, bound: Expr, terms: Terms, stored: Side) -> tuple[str, Expr, Expr, Terms]:
    """The same comparison with the constants on the bound's side: r.a - 10 <= l.x and r.a + 10 >= l.x share a key."""
    terms_of_key = _summands(without_widening(key), 1)
    own = [(t, s) for t, s in terms_of_key if sides(t)]
    moved = [(bound, 1), *((t, -s) for t, s in terms_of_key if not sides(t))]
    if own and all(sign < 0 for _, sign in own):
        own, moved, op = [(t, -s) for t, s in own], [(t, -s) for t, s in moved], MIRRORED[op]
    new_key, new_bound = signed_sum([(without_widening(t), s) for t, s in own]), signed_sum(moved)
    if new_key is None or new_bound is None:
        return op, key, bound, terms or (key, bound)
    others = [t for t in terms if stored not in sides(t)] or [bound]
    return op, new_key, new_bound, (*others, *(without_widening(t) for t, _ in terms_of_key))


def signed_sum(terms: list[tuple[Expr, int]]) -> Expr | None:
    """The signed sum of one-sided terms, typed; None where the types do not add up."""
    terms = [_without_sign(t, s) for t, s in terms]
    positive = [t for t, s in terms if s > 0]
    negative = [t for t, s in terms if s < 0]
    try:
        if positive:
            total = positive[0]
            rest = [("add", t) for t in positive[1:]] + [("sub", t) for t in negative]
        else:
            total = fold(typed_call("neg", (negative[0],)))
            rest = [("sub", t) for t in negative[1:]]
        for op, t in rest:
            total = fold(typed_call(op, (total, t)))
    except PredicateError:
        return None
    return total


def without_widening(expr: Expr) -> Expr:
    """The expression under conversions between numbers that keep order and every value."""
    lossless = {
        "bigint": ("tinyint", "smallint", "int"),
        "double": ("tinyint", "smallint", "int", "float"),
        "float": ("tinyint", "smallint"),
        "int": ("tinyint", "smallint"),
        "smallint": ("tinyint",),
    }
    while isinstance(expr, Cast) and expr.arg.type.kind in lossless.get(expr.type.kind, ()):
        expr = expr.arg
    return expr


def _terms(expr: Expr, sign: int) -> list[tuple[Expr, int]]:
    """The summands of an expression that mixes both sides; a one-sided expression stays whole."""
    if len(sides(expr)) == 2 and isinstance(expr, Call):
        if expr.op in ("add", "sub"):
            second = sign if expr.op == "add" else -sign
            return [*_terms(expr.args[0], sign), *_terms(expr.args[1], second)]
        if expr.op == "neg":
            return _terms(expr.args[0], -sign)
    if isinstance(expr, Constant) and expr.value == 0:
        return []
    return [(expr, sign)]


def _summands(expr: Expr, sign: int) -> list[tuple[Expr, int]]:
    """The summands of a one-sided expression, as far as some of them are constants."""
    if isinstance(expr, Call) and expr.op in ("add", "sub") and any(isinstance(arg, Constant) for arg in expr.args):
        second = sign if expr.op == "add" else -sign
        return [*_summands(expr.args[0], sign), *_summands(expr.args[1], second)]
    return [(expr, sign)]


def _without_sign(expr: Expr, sign: int) -> tuple[Expr, int]:
    """x - (-3) as x + 3; adding and subtracting wrap and round alike."""
    if isinstance(expr, Call) and expr.op == "neg":
        return expr.args[0], -sign
    if isinstance(expr, Constant) and (expr.type.is_numeric or expr.type.kind == "interval"):
        value, type_ = expr.value, expr.type
        if value is not None and value < 0 and not (type_.is_integer and value == -(2 ** (type_.bits - 1))):
            return Constant(-value, type_), -sign
    return expr, sign
