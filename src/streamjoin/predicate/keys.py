"""Range keys: what an ordered index sorts stored tuples by, and which range of it a probing tuple asks for.

A range key names slots. Its invariant: a stored tuple can match a probing one only if its key lies in one of the
intervals, both tuples being *regular*. Irregular tuples are kept apart and compared with everything. Three sources:

- bounds of one stream around a value of the other (`l.x BETWEEN r.a - 10 AND r.a + 10`, the left stored): the slots
  that the condition compares anyway;
- the same with the right stored: two slots around the probing value. The smaller one is the key; how far the larger
  one may be away from it (`width`) is learnt from the data;
- arithmetic over both streams (`abs(l.x - r.a) <= 10`), rearranged: holds where the summands are so small that
  integers do not wrap; floats get a margin for rounding. Other tuples are irregular.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import isfinite

from ..errors import PredicateError
from ..side import Side, other
from .coerce import cast, fold, typed_call
from .domains import key_slots
from .expr import MIRRORED, Call, Constant, Expr, conjunction, sides, walk
from .pair_emitter import PairEmitter, Test
from .plan import Band, Interval, Plan
from .slots import Encoding, Slot
from .types import BOOLEAN, DOUBLE, FLOAT, INTEGER_BITS

Bounds = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class RangeKey:
    """Numbers of slots: the stored tuple's `key`; for each interval the probing tuple's low and high bound."""

    key: int
    intervals: tuple[Bounds, ...]
    width: int | None = None
    """A stored slot: `key <= high` and `this slot >= low` must hold; so key >= low - the largest distance of both."""
    regular: Bounds = (None, None)
    """Boolean slots that say where the stored and the probing tuple are regular; None: all are."""
    exact: bool = False
    """Whether a key in an interval is all that `sources` ask for."""
    decides: bool = False
    """Whether it is all that the whole predicate asks for; with a `width`, where that is the same for all tuples."""
    sources: tuple[Expr, ...] = ()
    expr: Expr | None = None

    @property
    def bounded(self) -> bool:
        return all(low is not None and high is not None for low, high in self.intervals)


Comparisons = Sequence[tuple[Test, Expr]]
"""Tests that must hold by themselves, each with the condition that it stands for."""


def range_keys(plan: Plan, emitter: PairEmitter, comparisons: Comparisons, stored: Side) -> tuple[RangeKey, ...]:
    """The usable keys for one stored side, the most promising first. Keys may need slots of their own."""
    bands = [band for band in plan.bands if band.stored == stored]
    found = [key for band in bands if band.kind == "band" and not band.terms for key in _direct(band, emitter)]
    found += _between(emitter, comparisons, stored)
    for band in bands:
        if band.kind == "band" and band.terms and not {s for k in found for s in k.sources}.issuperset(band.sources):
            found += _rearranged(band, emitter)
    if not found:
        for band in bands:
            if band.kind != "band":
                found += _rearranged(band, emitter) if band.terms else _direct(band, emitter)
    return tuple(sorted(found, key=lambda key: (not key.bounded, not key.exact, len(key.intervals))))


def _direct(band: Band, emitter: PairEmitter) -> Iterator[RangeKey]:
    slots = _interval_slots(band, band.intervals, emitter)
    if slots is not None:
        key, intervals = slots
        single = len(intervals) == 1
        emitter.require(band.stored, key)
        for bound in (b for interval in intervals for b in interval if b is not None):
            (emitter.require if single else emitter.validity)(other(band.stored), bound)
        lossless = emitter.slots[band.stored][key].encoding.domain not in ("prefix", "approximate")
        yield RangeKey(key, intervals, exact=band.exact and lossless, sources=band.sources, expr=band.key)


def _between(emitter: PairEmitter, comparisons: Comparisons, stored: Side) -> Iterator[RangeKey]:
    """Tests that bound a probing value from below and above by two stored slots of the same kind."""
    at_most: list[tuple[int, int, Test, Expr]] = []
    at_least: list[tuple[int, int, Test, Expr]] = []
    for test, source in comparisons:
        own, probing = (test.left, test.right) if stored == "left" else (test.right, test.left)
        op = test.op if stored == "left" else MIRRORED[test.op]
        if op in ("le", "ge"):
            (at_most if op == "le" else at_least).append((own, probing, test, source))
    pairs = list(product(at_most, at_least))
    # Around one probing value if there is one; else whatever bounds from both sides, such as intervals that overlap.
    pairs = [(a, b) for a, b in pairs if a[1] == b[1]] or pairs
    for (low, high_bound, test, source), (high, low_bound, test2, source2) in pairs:
        a, b = emitter.slots[stored][low], emitter.slots[stored][high]
        same = (a.encoding.domain, a.encoding.scale, test.bits) == (b.encoding.domain, b.encoding.scale, test2.bits)
        if low != high and same and a.encoding.domain not in ("prefix", "approximate", "hash"):
            yield RangeKey(low, ((low_bound, high_bound),), width=high, sources=(source, source2), expr=a.expr)


def _rearranged(band: Band, emitter: PairEmitter) -> Iterator[RangeKey]:
    stored, probing = band.stored, other(band.stored)
    terms = [t for t in dict.fromkeys(band.terms) if not isinstance(t, Constant)]
    constants = [t for t in dict.fromkeys(band.terms) if isinstance(t, Constant)]
    if any(len(sides(t)) > 1 for t in terms) or any(c.value is None for c in constants):
        return
    own: list[Expr] = [t for t in terms if sides(t) == {stored}]
    moved: list[Expr] = [t for t in terms if sides(t) == {probing}]
    nodes = [node for source in band.sources for node in walk(source)]
    kinds = {t.type.kind for t in (*terms, band.key)}
    is_float = any(node.type.is_float for node in nodes)
    if any(t.type.kind == "decimal" for t in (*nodes, *terms)) or not kinds <= (
        _NUMBERS if is_float else _NUMBERS | _MOMENTS
    ):
        return
    if any(not isfinite(c.value) for c in constants if isinstance(c.value, float)):
        return
    whole = [n for n in nodes if len(sides(n)) == 2 and n.type.is_integer] if is_float else [*terms, *nodes]
    bits = min((INTEGER_BITS.get(n.type.kind, 64) for n in whole if n.type != BOOLEAN), default=None)
    limit: float = 1e30 if any(node.type == FLOAT for node in nodes) else 1e290
    if bits is not None:  # all partial sums, in whatever order, stay below 2**(bits - 1)
        summands = max(2 + sum(isinstance(n, Call) and n.op in ("add", "sub") for n in walk(s)) for s in band.sources)
        limit = (2 ** (bits - 1) - 1 - int(sum(abs(c.value) for c in constants))) // max(len(terms), summands)
    if any(not abs(c.value) <= max(limit, 0) for c in constants) or limit <= 0:
        return
    try:
        if is_float:
            if own != [band.key] and own != [_negated(band.key)]:
                return  # the sum of several stored values would be rounded by itself
            share = 2.0**-17 if any(node.type == FLOAT for node in nodes) else 2.0**-46
            intervals = tuple(_widened(i, moved, constants, share) for i in band.intervals)
        else:
            units = {t.type.unit for t in (*terms, *constants) if t.type.is_timestamp or t.type.kind == "interval"}
            if len(units) > 1:
                return
            intervals = band.intervals
        small = {side: _all_small(own if side == stored else moved, limit) for side in (stored, probing)}
    except PredicateError:
        return
    slots = _interval_slots(band, intervals, emitter)
    if slots is not None:
        key, bounds = slots
        emitter.require(stored, key)
        for number in (b for interval in bounds for b in interval if b is not None):
            # The bound of a single interval is NULL only where a summand is, unless it is rounded.
            single = len(bounds) == 1 and emitter.slots[probing][number].encoding.mode == "exact"
            (emitter.require if single else emitter.validity)(probing, number)
        truth = Encoding(truth=True)
        regular = (
            emitter.slot(stored, small[stored], truth, "bool"),
            emitter.slot(probing, small[probing], truth, "bool"),
        )
        yield RangeKey(key, bounds, regular=regular, sources=band.sources, expr=band.key)


_NUMBERS = {*INTEGER_BITS, "float", "double"}
_MOMENTS = {"timestamp", "timestamp_ntz", "interval"}


def _negated(expr: Expr) -> Expr:
    return expr.args[0] if isinstance(expr, Call) and expr.op == "neg" else Call("neg", (expr,), expr.type)


def _all_small(terms: list[Expr], limit: float) -> Expr:
    """Whether every term lies in [-limit, limit]; not true for NULL and NaN."""
    tests: list[Expr] = []
    for term in terms:
        end = int(min(limit, 2 ** (INTEGER_BITS.get(term.type.kind, 64) - 1) - 1)) if not term.type.is_float else limit
        tests += [Call("le", (term, Constant(end, term.type)), BOOLEAN)]
        tests += [Call("ge", (term, Constant(-end, term.type)), BOOLEAN)]
    return conjunction(tests)


def _widened(interval: Interval, terms: list[Expr], constants: list[Constant], share: float) -> Interval:
    """The interval with a margin of a share of all the magnitudes that its bounds were computed from."""
    total: Expr = Constant(float(sum(abs(c.value) for c in constants)), DOUBLE)
    for term in terms:
        total = typed_call("add", (total, typed_call("abs", (cast(term, DOUBLE),))))
    margin = fold(typed_call("mul", (total, Constant(share, DOUBLE))))

    def moved(bound: Expr | None, op: str) -> Expr | None:
        return None if bound is None else fold(typed_call(op, (cast(bound, DOUBLE), margin)))

    return Interval(moved(interval.low, "sub"), True, moved(interval.high, "add"), True)


def _interval_slots(
    band: Band, intervals: tuple[Interval, ...], emitter: PairEmitter
) -> tuple[int, tuple[Bounds, ...]] | None:
    """Slots of the key and all bounds in one domain in which the key is at home; None if there is none."""
    comparisons: list[tuple[Slot, Slot]] = []
    for interval in intervals:
        for bound, closed, op in (
            (interval.low, interval.low_closed, "ge"),
            (interval.high, interval.high_closed, "le"),
        ):
            if bound is not None:
                comparisons.append(
                    key_slots(op if closed else {"ge": "gt", "le": "lt"}[op], band.key, bound, band.stored)
                )
    if not comparisons or len({(s.expr, s.encoding, s.dtype) for s, _ in comparisons}) > 1:
        return None
    key = emitter.like(band.stored, comparisons[0][0])
    numbers = iter([emitter.like(other(band.stored), bound) for _, bound in comparisons])
    found = tuple(
        (next(numbers) if i.low is not None else None, next(numbers) if i.high is not None else None) for i in intervals
    )
    return key, found
