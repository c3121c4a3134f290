"""Analysing a bound predicate: what each side filters by itself, and which conditions an index can use."""

from __future__ import annotations

from ..side import SIDES
from .bands import find_bands
from .expr import Call, Expr, conjuncts, sides
from .normal import normalise
from .plan import Equality, Plan
from .rearrange import isolate


def make_plan(predicate: Expr) -> Plan:
    """Analyse a bound predicate."""
    left: list[Expr] = []
    right: list[Expr] = []
    pair: list[Expr] = []
    for term in conjuncts(normalise(predicate)):
        used = sides(term)
        if len(used) == 2:
            pair.append(term)
        else:
            if used != {"right"}:
                left.append(term)
            if used != {"left"}:
                right.append(term)
    equalities = tuple(e for term in pair if (e := _equality(term)) is not None)
    keyed = {e.source for e in equalities}
    rest = [term for term in pair if term not in keyed]
    bands = (*find_bands(rest, "left"), *find_bands(rest, "right"))
    return Plan(predicate, (tuple(left), tuple(right)), tuple(pair), equalities, bands)


def _equality(term: Expr) -> Equality | None:
    if not (isinstance(term, Call) and term.op == "eq"):
        return None
    for stored in SIDES:
        split = isolate(term, stored)
        if split is not None:
            _, key, bound, moved = split
            # Modulo 2**n an equation may be rearranged, an inequality may not.
            exact = not moved or (key.type.is_integer and key.type == bound.type)
            if exact and sides(bound):
                left, right = (key, bound) if stored == "left" else (bound, key)
                return Equality(left, right, term)
    return None
