"""One form for predicates that differ only in how they are written.

Law: the canonical form of a bound predicate is true for the same pairs, and what is changed are only places: of terms
in AND and OR, of the operands of a comparison, of a sum or of a product. So all spellings give the same tree, the same
plan and the same slots. A join whose state outlives it (on Spark) plans this form.
"""

from __future__ import annotations

from .expr import MIRRORED, Call, Cast, Expr, conjunction, disjunction, sides
from .render import render

_FIRST_TERMS = ("eq", "ge", "gt", "le", "lt", "ne")
"""Equalities, then a band's lower end, then its upper end: the order in which most people write them."""
_READS = {frozenset({"left"}): 0, frozenset({"left", "right"}): 1, frozenset({"right"}): 2, frozenset[str](): 3}
"""What reads the left stream comes first, constants last."""


def canonical(expr: Expr) -> Expr:
    """The canonical form of a bound expression."""
    match expr:
        case Cast(arg, type_):
            return Cast(canonical(arg), type_)
        case Call(op, args, type_):
            new = tuple(canonical(arg) for arg in args)
            if op in ("and", "or"):
                terms = sorted(new, key=_place_of_term)
                return conjunction(terms) if op == "and" else disjunction(terms)
            if op in MIRRORED and _place(new[1]) < _place(new[0]):
                return Call(MIRRORED[op], new[::-1], type_)
            if op in ("add", "mul") and new[0].type == new[1].type:
                new = tuple(sorted(new, key=_place))
            return Call(op, new, type_)
        case _:
            return expr


def _place(operand: Expr) -> tuple[int, str]:
    return _READS[frozenset(sides(operand))], render(operand)


def _place_of_term(term: Expr) -> tuple[int, str]:
    op = term.op if isinstance(term, Call) else ""
    return _FIRST_TERMS.index(op) if op in _FIRST_TERMS else len(_FIRST_TERMS), render(term)
