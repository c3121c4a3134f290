"""The plan: what in a predicate an index can use, and what is left to check per candidate pair.

`Plan` is the seam between the predicate and everything that runs it (kernels, Spark, hardware). Its invariant:
a pair matches iff both tuples pass their side's filter and every pair condition is true. `equalities` and `bands`
describe *necessary* conditions found among the pair conditions; where one is `exact` it also replaces them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from ..side import Side
from .expr import COMPARISONS, MIRRORED, Call, Cast, Constant, Expr, conjunction, conjuncts, sides
from .normal import normalise
from .types import BOOLEAN

MAX_INTERVALS = 16
Terms = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Equality:
    """`left` (over left columns) equals `right` (over right columns): a hash key. Always exact."""

    left: Expr
    right: Expr
    source: Expr

    def of(self, side: Side) -> Expr:
        return self.left if side == "left" else self.right


@dataclass(frozen=True, slots=True)
class Interval:
    """low <= key <= high, or < where not closed; None is no bound. Bounds read the probing side only."""

    low: Expr | None = None
    low_closed: bool = True
    high: Expr | None = None
    high_closed: bool = True


@dataclass(frozen=True, slots=True)
class Band:
    """Stored tuples can match only if `key` lies in one of the intervals that the probing tuple gives.

    Where not `exact`, candidates must be rechecked. `terms` are the summands that were moved from one side of a
    comparison to the other, empty if none was: the band then holds only for tuples for which adding them up neither
    overflows nor rounds (`l.a - r.a <= 3` is true for the largest l.a and r.a = -10, because integers wrap).
    `keys.range_keys` says how such a band is used.
    """

    stored: Side
    key: Expr
    intervals: tuple[Interval, ...]
    exact: bool
    sources: tuple[Expr, ...]
    terms: tuple[Expr, ...] = ()

    @property
    def kind(self) -> str:
        """ "band" where every interval is bounded on both sides, else "range"."""
        bounded = all(i.low is not None and i.high is not None for i in self.intervals)
        return "band" if bounded else "range"


@dataclass(frozen=True, slots=True)
class Plan:
    """An analysed predicate; see the module's docstring for the invariant."""

    predicate: Expr
    filters: tuple[tuple[Expr, ...], tuple[Expr, ...]]
    pair: tuple[Expr, ...]
    equalities: tuple[Equality, ...]
    bands: tuple[Band, ...]

    def filter_of(self, side: Side) -> tuple[Expr, ...]:
        return self.filters[side == "right"]

    def band_of(self, stored: Side) -> Band | None:
        """The most selective-looking band for probing the stored side: bands before one-sided ranges."""
        candidates = [band for band in self.bands if band.stored == stored]
        return min(candidates, key=lambda b: (b.kind != "band", not b.exact, len(b.intervals)), default=None)

    @property
    def kind(self) -> str:
        """What an index could use best: "equality", "band", "range" or "none"."""
        if self.equalities:
            return "equality"
        kinds = {band.kind for band in self.bands}
        return "band" if "band" in kinds else "range" if kinds else "none"

    def residual(self, stored: Side) -> tuple[Expr, ...]:
        """The pair conditions that remain after the equality keys and the stored side's band."""
        covered = {equality.source for equality in self.equalities}
        band = self.band_of(stored)
        if band is not None and band.exact:
            covered.update(band.sources)
        return tuple(term for term in self.pair if term not in covered)


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
    bands = (*_bands(rest, "left"), *_bands(rest, "right"))
    return Plan(predicate, (tuple(left), tuple(right)), tuple(pair), equalities, bands)


def _equality(term: Expr) -> Equality | None:
    if not (isinstance(term, Call) and term.op == "eq"):
        return None
    for stored in ("left", "right"):
        split = _isolate(term, "left" if stored == "left" else "right")
        if split is not None:
            _, key, bound, moved = split
            exact = not moved
            # Modulo 2**n an equation may be rearranged, an inequality may not.
            wraps = key.type.is_integer
            if exact or (wraps and key.type == bound.type):
                sides_ = (key, bound) if stored == "left" else (bound, key)
                if sides(bound) and sides(key):
                    return Equality(*sides_, term)
    return None


def _isolate(term: Call, stored: Side) -> tuple[str, Expr, Expr, Terms] | None:
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
    key_, bound_ = _sum(own), _sum(moved)
    return None if key_ is None or bound_ is None else (op, key_, bound_, tuple(t for t, _ in terms))


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


def _sum(terms: list[tuple[Expr, int]]) -> Expr | None:
    """The signed sum of one-sided terms, typed; None where the types do not add up."""
    from ..errors import PredicateError
    from .coerce import fold, typed_call

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


def _without_sign(expr: Expr, sign: int) -> tuple[Expr, int]:
    """x - (-3) as x + 3; adding and subtracting wrap and round alike."""
    if isinstance(expr, Call) and expr.op == "neg":
        return expr.args[0], -sign
    if isinstance(expr, Constant) and (expr.type.is_numeric or expr.type.kind == "interval"):
        value, type_ = expr.value, expr.type
        if value is not None and value < 0 and not (type_.is_integer and value == -(2 ** (type_.bits - 1))):
            return Constant(-value, type_), -sign
    return expr, sign


@dataclass(frozen=True, slots=True)
class Constraint:
    """Intervals for a key, as in `Band`."""

    intervals: tuple[Interval, ...]
    exact: bool
    terms: Terms = ()


def _bands(terms: list[Expr], stored: Side) -> tuple[Band, ...]:
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
    a, b = (_widened(arg) if len(sides(arg)) == 2 else arg for arg in term.args)
    for magnitude, bound, op in ((a, b, term.op), (b, a, MIRRORED[term.op])):
        if isinstance(magnitude, Call) and magnitude.op == "abs" and len(sides(magnitude)) == 2 and op != "ne":
            return _absolute(magnitude.args[0], bound, op, stored)
    split = _isolate(Call(term.op, (a, b), BOOLEAN), stored)
    if split is None:
        return {}
    found: dict[Expr, Constraint] = {}
    for op, key, bound, moved in (split, _bare(*split, stored)):
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


def _bare(op: str, key: Expr, bound: Expr, terms: Terms, stored: Side) -> tuple[str, Expr, Expr, Terms]:
    """The same comparison with the constants on the bound's side: r.a - 10 <= l.x and r.a + 10 >= l.x share a key."""
    terms_of_key = _summands(_widened(key), 1)
    own = [(t, s) for t, s in terms_of_key if sides(t)]
    moved = [(bound, 1), *((t, -s) for t, s in terms_of_key if not sides(t))]
    if own and all(sign < 0 for _, sign in own):
        own, moved, op = [(t, -s) for t, s in own], [(t, -s) for t, s in moved], MIRRORED[op]
    new_key, new_bound = _sum([(_widened(t), s) for t, s in own]), _sum(moved)
    if new_key is None or new_bound is None:
        return op, key, bound, terms or (key, bound)
    others = [t for t in terms if stored not in sides(t)] or [bound]
    return op, new_key, new_bound, (*others, *(_widened(t) for t, _ in terms_of_key))


def _summands(expr: Expr, sign: int) -> list[tuple[Expr, int]]:
    """The summands of a one-sided expression, as far as some of them are constants."""
    if isinstance(expr, Call) and expr.op in ("add", "sub") and any(isinstance(arg, Constant) for arg in expr.args):
        second = sign if expr.op == "add" else -sign
        return [*_summands(expr.args[0], sign), *_summands(expr.args[1], second)]
    return [(expr, sign)]


def _widened(expr: Expr) -> Expr:
    """What a conversion between numbers that keeps order and every value was applied to."""
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


def _absolute(inner: Expr, bound: Expr, op: str, stored: Side) -> dict[Expr, Constraint]:
    """|e| <= c is -c <= e <= c; |e| >= c is two disjoint ranges."""
    while isinstance(inner, Call) and inner.op == "abs":
        inner = inner.args[0]
    if len(sides(bound)) == 2:
        return {}
    minus = _sum([(bound, -1)])
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
    pieces = [(_tighter(x, y)) for x, y in product(a.intervals, b.intervals)]
    if any(piece is None for piece in pieces):
        return None
    exact = a.exact and b.exact and all(not _doubled(x, y) for x, y in product(a.intervals, b.intervals))
    return Constraint(tuple(piece for piece in pieces if piece is not None), exact, _all_terms(a, b))


def _doubled(x: Interval, y: Interval) -> bool:
    """Whether two bounds were merged into one that says less: of two, GREATEST and LEAST pass over a NULL one, and of
    an open and a closed one the closed is kept."""
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
    from ..errors import PredicateError
    from .coerce import fold, typed_call

    if a is None or b is None or a == b:
        return a if b is None else b
    try:
        return fold(typed_call(op, (a, b)))
    except PredicateError:
        return None
