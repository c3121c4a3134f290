"""Bands: which intervals a key of the stored side must lie in if the pair conditions are true.

A comparison gives one interval. AND intersects the intervals of a key, OR collects them. See `Band` for what holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from ..errors import PredicateError
from ..side import Side
from .coerce import fold, typed_call
from .expr import COMPARISONS, MIRRORED, Call, Expr, conjunction, sides
from .plan import Band, Interval
from .rearrange import Terms, constants_moved, isolate, signed_sum, without_widening
from .types import BOOLEAN

MAX_INTERVALS = 16
"""A key with more intervals than this is no key."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """Intervals for a key, as in `Band`."""

    intervals: tuple[Interval, ...]
    exact: bool
    terms: Terms = ()


def find_bands(terms: Sequence[Expr], stored: Side) -> tuple[Band, ...]:
    """One band for each key that the conjunction of `terms` restricts."""
    found: dict[Expr, tuple[Constraint, list[Expr]]] = {}
    for term in terms:
        for key, constraint in _constraints(term, stored).items():
            if key in found:
                earlier, sources = found[key]
                both = _intersect(earlier, constraint)
                if both is not None:
                    found[key] = (both, [*sources, term])
            else:
                found[key] = (constraint, [term])
    return tuple(
        Band(stored, key, c.intervals, c.exact, tuple(sources), c.terms) for key, (c, sources) in found.items()
    )


def _constraints(term: Expr, stored: Side) -> dict[Expr, Constraint]:
    """For each key over the stored side: intervals it must lie in if `term` is true."""
    if not isinstance(term, Call):
        return {}
    if term.op == "and":
        parts = [_constraints(part, stored) for part in term.args]
        merged: dict[Expr, Constraint] = {}
        for part in parts:
            for key, constraint in part.items():
                both = _intersect(merged[key], constraint) if key in merged else constraint
                merged[key] = replace(merged[key], exact=False) if both is None else both
        # A branch is covered by a key only if every part of it asks for nothing but that key.
        return {
            key: replace(constraint, exact=constraint.exact and all(key in part for part in parts))
            for key, constraint in merged.items()
        }
    if term.op == "or":
        branches = [_constraints(part, stored) for part in term.args]
        alternatives: dict[Expr, Constraint] = {}
        for key in branches[0]:
            if all(key in branch for branch in branches):
                constraints = [branch[key] for branch in branches]
                pieces = dict.fromkeys(interval for c in constraints for interval in c.intervals)
                if len(pieces) <= MAX_INTERVALS:
                    exact = all(c.exact for c in constraints)
                    alternatives[key] = Constraint(tuple(pieces), exact, _all_terms(*constraints))
        return alternatives
    if term.op in COMPARISONS:
        return _comparison(term, stored)
    return {}


def _comparison(term: Call, stored: Side) -> dict[Expr, Constraint]:
    a, b = (without_widening(arg) if len(sides(arg)) == 2 else arg for arg in term.args)
    for magnitude, bound, op in ((a, b, term.op), (b, a, MIRRORED[term.op])):
        if isinstance(magnitude, Call) and magnitude.op == "abs" and len(sides(magnitude)) == 2 and op != "ne":
            return _absolute(magnitude.args[0], bound, op, stored)
    split = isolate(Call(term.op, (a, b), BOOLEAN), stored)
    if split is None:
        return {}
    found: dict[Expr, Constraint] = {}
    for op, key, bound, moved in (split, constants_moved(*split, stored)):
        interval = {
            "eq": Interval(bound, True, bound, True),
            "lt": Interval(high=bound, high_closed=False),
            "le": Interval(high=bound),
            "gt": Interval(low=bound, low_closed=False),
            "ge": Interval(low=bound),
        }.get(op)
        if interval is not None:
            found.setdefault(key, Constraint((interval,), not moved, moved))
    return found


def _absolute(inner: Expr, bound: Expr, op: str, stored: Side) -> dict[Expr, Constraint]:
    """|e| <= c is -c <= e <= c; |e| >= c is two disjoint ranges."""
    while isinstance(inner, Call) and inner.op == "abs":
        inner = inner.args[0]
    if len(sides(bound)) == 2:
        return {}
    minus = signed_sum([(bound, -1)])
    if minus is None:
        return {}

    def atom(op: str, limit: Expr) -> Call:
        return Call(op, (inner, limit), BOOLEAN)

    if op in ("le", "lt", "eq"):
        within = "lt" if op == "lt" else "le"
        terms = conjunction([atom(within, bound), atom("gt" if op == "lt" else "ge", minus)])
    else:
        beyond = "gt" if op == "gt" else "ge"
        terms = Call("or", (atom("lt" if op == "gt" else "le", minus), atom(beyond, bound)), BOOLEAN)
    return {key: replace(c, exact=False, terms=(*c.terms, bound)) for key, c in _constraints(terms, stored).items()}


def _all_terms(*constraints: Constraint) -> Terms:
    return tuple(dict.fromkeys(term for c in constraints for term in c.terms))


def _intersect(a: Constraint, b: Constraint) -> Constraint | None:
    if len(a.intervals) * len(b.intervals) > MAX_INTERVALS:
        return None
    pieces = [_tighter(x, y) for x, y in product(a.intervals, b.intervals)]
    if any(piece is None for piece in pieces):
        return None
    exact = a.exact and b.exact and all(not _doubled(x, y) for x, y in product(a.intervals, b.intervals))
    return Constraint(tuple(piece for piece in pieces if piece is not None), exact, _all_terms(a, b))


def _doubled(x: Interval, y: Interval) -> bool:
    """Whether two bounds were merged into one that says less: GREATEST and LEAST ignore a NULL bound, and of an open
    and a closed bound the closed one is kept."""
    low = x.low is not None and y.low is not None and (x.low != y.low or x.low_closed != y.low_closed)
    high = x.high is not None and y.high is not None and (x.high != y.high or x.high_closed != y.high_closed)
    return low or high


def _tighter(x: Interval, y: Interval) -> Interval | None:
    """The intersection of two intervals: of two bounds the stricter, decided per probing tuple."""
    low = _strictest("greatest", x.low, y.low)
    high = _strictest("least", x.high, y.high)
    if (low is None) != (x.low is None and y.low is None) or (high is None) != (x.high is None and y.high is None):
        return None
    low_closed = x.low_closed and y.low_closed if x.low is None or y.low is None else x.low_closed or y.low_closed
    high_closed = (
        x.high_closed and y.high_closed if x.high is None or y.high is None else x.high_closed or y.high_closed
    )
    return Interval(low, low_closed, high, high_closed)


def _strictest(op: str, a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None or a == b:
        return a if b is None else b
    try:
        return fold(typed_call(op, (a, b)))
    except PredicateError:
        return None
