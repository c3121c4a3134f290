"""Normal form: negations pushed down to the atoms, so that AND and OR are monotone.

Everything that follows relies on one law of three-valued logic: a formula of AND and OR over atoms is true exactly
when it is true after every NULL atom is replaced by false. So an atom may be compiled to two values, "true" or "not".
"""

from __future__ import annotations

from .expr import (
    COMPARISONS,
    MIRRORED,
    NEGATED,
    UNKNOWN,
    Call,
    Constant,
    Expr,
    conjunction,
    conjuncts,
    disjunction,
    sides,
    walk,
)
from .types import BOOLEAN, STRING

MAX_LIFTED = 16
"""A choice between texts with more nodes than this stays as it is (and is rechecked): lifting multiplies nodes."""


def normalise(expr: Expr) -> Expr:
    """A bound predicate in negation normal form, common terms of ORs pulled out, text choices lifted."""
    return _factor(_nnf(expr, False))


def _nnf(expr: Expr, negate: bool) -> Expr:
    if isinstance(expr, Constant):
        return UNKNOWN if expr.value is None else Constant(expr.value is not negate, BOOLEAN)
    if isinstance(expr, Call):
        op, args = expr.op, expr.args
        if op == "not":
            return _nnf(args[0], not negate)
        if op in ("and", "or"):
            terms = [_nnf(arg, negate) for arg in args]
            return conjunction(terms) if (op == "and") is not negate else disjunction(terms)
        if op in COMPARISONS or op == "isnull":
            lifted = _lift(expr)
            if lifted is not expr:
                return _nnf(lifted, negate)
            if op in COMPARISONS:
                return _oriented(NEGATED[op] if negate else op, *args)
        if op == "case":
            new = [_nnf(arg, negate and (i % 2 == 1 or i == len(args) - 1)) for i, arg in enumerate(args)]
            return Call("case", tuple(new), BOOLEAN)
    return Call("not", (expr,), BOOLEAN) if negate else expr


def _oriented(op: str, a: Expr, b: Expr) -> Expr:
    """A comparison between the streams with the left one's operand first, so that equal terms look equal."""
    if sides(a) == {"right"} and sides(b) == {"left"}:
        return Call(MIRRORED[op], (b, a), BOOLEAN)
    return Call(op, (a, b), BOOLEAN)


def _factor(expr: Expr) -> Expr:
    """(a AND b) OR (a AND c) is a AND (b OR c): what every branch asks for can serve as an index key."""
    if not isinstance(expr, Call) or expr.op not in ("and", "or"):
        return expr
    terms = [_factor(arg) for arg in expr.args]
    if expr.op == "and":
        return conjunction(terms)
    branches = [conjuncts(term) for term in terms]
    others = [set(branch) for branch in branches[1:]]
    shared = [term for term in branches[0] if all(term in branch for branch in others)]
    if not shared:
        return disjunction(terms)
    rest = disjunction(conjunction(t for t in branch if t not in shared) for branch in branches)
    return conjunction([*shared, rest])


def _lift(expr: Call) -> Expr:
    """A comparison over a choice between texts of both streams becomes a choice between comparisons.

    Kernels hold texts of one stream only; `CASE WHEN c THEN l.s ELSE r.s END = 'x'` needs none of both.
    """
    for i, arg in enumerate(expr.args):
        if arg.type == STRING and len(sides(arg)) == 2 and isinstance(arg, Call):
            branches = _as_case(arg) if _is_liftable(arg) else None
            if branches is not None:
                new: list[Expr] = []
                for k, part in enumerate(branches):
                    is_value = k % 2 == 1 or k == len(branches) - 1
                    operands = (*expr.args[:i], part, *expr.args[i + 1 :])
                    new.append(Call(expr.op, operands, BOOLEAN) if is_value else part)
                return Call("case", tuple(new), BOOLEAN)
    return expr


def _is_liftable(choice: Call) -> bool:
    longest = max(len(n.args) for n in walk(choice) if isinstance(n, Call))
    return len(list(walk(choice))) <= MAX_LIFTED and (choice.op == "case" or longest <= 3)


def _as_case(expr: Call) -> tuple[Expr, ...] | None:
    """The branches of a choice operator, as CASE has them."""
    if expr.op == "case":
        return expr.args
    first, *rest = expr.args
    if expr.op not in ("coalesce", "least", "greatest"):
        return None
    if not rest:
        return (Constant(True, BOOLEAN), first, first)
    tail: Expr = rest[0] if len(rest) == 1 else Call(expr.op, tuple(rest), expr.type)
    first_is_null = Call("isnull", (first,), BOOLEAN)
    if expr.op == "coalesce":
        return (first_is_null, tail, first)
    first_wins = Call("le" if expr.op == "least" else "ge", (first, tail), BOOLEAN)
    tail_is_null = Call("isnull", (tail,), BOOLEAN)
    return (first_is_null, tail, tail_is_null, first, first_wins, first, tail)
