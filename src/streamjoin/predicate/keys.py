"""Range keys: what an ordered index sorts stored tuples by, and which range of it a probing tuple asks for.

A range key names slots. Its invariant: if both tuples are *regular*, the stored one can match the probing one only
if its key lies in one of the intervals. Irregular tuples are kept apart and compared with everything. There are three
sources of keys:

- bounds of one stream around a value of the other (`l.x BETWEEN r.a - 10 AND r.a + 10`, the left stored): the slots
  that the condition compares anyway;
- the same with the right stored: two slots around the probing value. The smaller one is the key; the index learns
  from the data how far the larger one (`width`) may be away from it;
- arithmetic over both streams (`abs(l.x - r.a) <= 10`), rearranged. Tuples are regular if their summands are so small
  that integers do not wrap; bounds of floats get a margin for rounding.
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
from .expr import COMPARISONS, MIRRORED, Call, Constant, Expr, conjunction, sides, walk
from .pair_emitter import PairEmitter, Test
from .plan import Band, Interval, Plan
from .rearrange import without_widening
from .slots import Encoding, Slot
from .types import BOOLEAN, DOUBLE, FLOAT, INTEGER_BITS, MAX_PRECISION

Bounds = tuple[int | None, int | None]
_NUMBERS = {*INTEGER_BITS, "float", "double"}
_MOMENTS = {"timestamp", "timestamp_ntz", "interval"}


@dataclass(frozen=True, slots=True)
class RangeKey:
    """Numbers of slots: the stored tuple's `key`; for each interval the probing tuple's low and high bound."""

    key: int
    intervals: tuple[Bounds, ...]
    width: int | None = None
    """Another stored slot: `key <= high` and `this slot >= low` must hold. So the key is at least `low` minus the
    largest distance between the two slots."""
    regular: Bounds = (None, None)
    """Boolean slots that say where the stored and the probing tuple are regular; None: all are."""
    exact: bool = False
    """Whether a key in an interval is all that `sources` ask for."""
    stored_bits: int | None = 64
    """The intervals of a regular probing tuple hold all stored tuples that match it, irregular ones too, if only so
    many low bits of keys are compared. None: an irregular one may have its key anywhere."""
    decides: bool = False
    """Whether it is all that the whole predicate asks for. With a `width`: only if the distance is the same for all
    stored tuples."""
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
    """A band whose comparisons stand in the predicate as they are: all tuples are regular."""
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
    # Prefer two bounds on one probing value; else take any two from both sides, such as of intervals that overlap.
    pairs = [(a, b) for a, b in pairs if a[1] == b[1]] or pairs
    for (low, high_bound, test, source), (high, low_bound, test2, source2) in pairs:
        a, b = emitter.slots[stored][low], emitter.slots[stored][high]
        same = (a.encoding.domain, a.encoding.scale, test.bits) == (b.encoding.domain, b.encoding.scale, test2.bits)
        if low != high and same and a.encoding.domain not in ("prefix", "approximate", "hash"):
            yield RangeKey(low, ((low_bound, high_bound),), width=high, sources=(source, source2), expr=a.expr)


def _rearranged(band: Band, emitter: PairEmitter) -> Iterator[RangeKey]:
    """A band that was found by moving terms; nothing where no limit makes tuples regular."""
    if _is_exact(band):
        yield from _direct(band, emitter)
        return
    stored, probing = band.stored, other(band.stored)
    terms: list[Expr] = [t for t in dict.fromkeys(band.terms) if not isinstance(t, Constant)]
    constants = [t for t in dict.fromkeys(band.terms) if isinstance(t, Constant)]
    summands = {side: [t for t in terms if sides(t) == {side}] for side in (stored, probing)}
    limit = _limit(band, terms, constants)
    if limit is None:
        return
    try:
        intervals = _safe_intervals(band, summands[stored], summands[probing], constants)
        small = {side: _all_small(summands[side], limit) for side in (stored, probing)}
    except PredicateError:
        return
    slots = None if intervals is None else _interval_slots(band, intervals, emitter)
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
        bits = _stored_bits(band, summands[stored])
        yield RangeKey(key, bounds, regular=regular, stored_bits=bits, sources=band.sources, expr=band.key)


def _stored_bits(band: Band, own: list[Expr]) -> int | None:
    """`RangeKey.stored_bits` of a rearranged band: what is known where it bounds one difference from both sides.

    Let the probing tuple be regular. A difference of floats that is NaN or infinite has no regular bounds, and large
    floats only round. A difference of n-bit integers would have to wrap once around to come back between its bounds,
    for which its other terms are too small. Only abs(-2**(n-1)) is negative, so it meets every upper bound: there the
    stored key lies 2**(n-1) beside the middle of the interval, and its lower n - 1 bits are those of the middle. The
    middle lies in the interval if the bound is a number that is not negative.
    """
    found = [_difference(source) for source in band.sources]
    difference = found[0][0]
    if band.kind != "band" or difference is None or any(other != difference for other, _ in found):
        return None
    types = {node.type for node in walk(difference) if len(sides(node)) == 2}
    if all(type_.is_float for type_ in types):
        return 64
    if len(types) > 1 or (own != [band.key] and own != [_negated(band.key)]):
        return None
    if not any(is_magnitude for _, is_magnitude in found):
        return 64
    bounds = [arg for source in band.sources if isinstance(source, Call) for arg in source.args if not sides(arg)]
    is_constant = len(bounds) == len(found) == 1 and isinstance(bounds[0], Constant) and bounds[0].value >= 0
    return INTEGER_BITS.get(types.pop().kind, 64) - 1 if is_constant else None


def _difference(source: Expr) -> tuple[Expr | None, bool]:
    """What a comparison bounds that reads both streams, without its sign, and whether it is without; None: not one."""
    if not isinstance(source, Call) or source.op not in COMPARISONS:
        return None, False
    mixed = [without_widening(arg) for arg in source.args if len(sides(arg)) == 2]
    if len(mixed) != 1:
        return None, False
    difference = mixed[0]
    while isinstance(difference, Call) and difference.op == "abs":
        difference = difference.args[0]
    return difference, difference != mixed[0]


def _is_exact(band: Band) -> bool:
    """Whether all that is computed from both streams are decimals with digits to spare: then moving terms changes
    nothing. One that has all digits may have been rounded, or be NULL because it had more."""
    mixed = [node for node in _nodes(band) if len(sides(node)) == 2 and node.type != BOOLEAN]
    bounds = [bound for interval in band.intervals for bound in (interval.low, interval.high) if bound is not None]
    return bool(mixed) and all(
        node.type.kind == "decimal" and node.type.precision < MAX_PRECISION for node in (*mixed, *bounds, band.key)
    )


def _limit(band: Band, terms: list[Expr], constants: list[Constant]) -> float | None:
    """Up to which magnitude of all summands moving them changes nothing but rounding; None where there is no limit."""
    if any(len(sides(t)) > 1 for t in terms) or any(c.value is None for c in constants):
        return None
    if any(not isfinite(c.value) for c in constants if isinstance(c.value, float)):
        return None
    nodes = _nodes(band)
    kinds = {t.type.kind for t in (*terms, band.key)}
    is_float = _has_floats(band)
    movable = _NUMBERS if is_float else _NUMBERS | _MOMENTS
    if any(t.type.kind == "decimal" for t in (*nodes, *terms)) or not kinds <= movable:
        return None
    whole = [n for n in nodes if len(sides(n)) == 2 and n.type.is_integer] if is_float else [*terms, *nodes]
    bits = min((INTEGER_BITS.get(n.type.kind, 64) for n in whole if n.type != BOOLEAN), default=None)
    limit: float = 1e30 if any(node.type == FLOAT for node in nodes) else 1e290
    if bits is not None:  # all partial sums, in whatever order, stay below 2**(bits - 1)
        summands = max(2 + sum(isinstance(n, Call) and n.op in ("add", "sub") for n in walk(s)) for s in band.sources)
        limit = (2 ** (bits - 1) - 1 - int(sum(abs(c.value) for c in constants))) // max(len(terms), summands)
    return limit if limit > 0 and all(abs(c.value) <= limit for c in constants) else None


def _safe_intervals(
    band: Band, own: list[Expr], moved: list[Expr], constants: list[Constant]
) -> tuple[Interval, ...] | None:
    """The band's intervals, those of floats with a margin for rounding; None where they cannot be had."""
    if _has_floats(band):
        if own != [band.key] and own != [_negated(band.key)]:
            return None  # the sum of several stored values would be rounded by itself
        share = 2.0**-17 if any(node.type == FLOAT for node in _nodes(band)) else 2.0**-46
        return tuple(_widened(interval, moved, constants, share) for interval in band.intervals)
    times = [t.type for t in (*own, *moved, *constants) if t.type.is_timestamp or t.type.kind == "interval"]
    return band.intervals if len({type_.unit for type_ in times}) <= 1 else None


def _nodes(band: Band) -> list[Expr]:
    return [node for source in band.sources for node in walk(source)]


def _has_floats(band: Band) -> bool:
    return any(node.type.is_float for node in _nodes(band))


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
