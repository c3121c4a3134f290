"""Lowering: a plan becomes *slots* (a few integers or floats per tuple) and one condition over two tuples' slots.

Invariant: two tuples match iff both are *live* (their side's filters are true and no slot that must not be NULL is)
and the condition is true for their slots and, for what slots cannot decide, the rechecks are true for their columns.
The condition is monotone in what needs a recheck, so it never loses a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..side import SIDES, BothSides, Side
from .expr import Call, Expr
from .keys import RangeKey, range_keys
from .pair_emitter import Near, PairEmitter, Test, count_comparisons
from .plan import Plan
from .references import referenced_slots
from .slots import SideProgram, Slot
from .types import BOOLEAN

__all__ = ["Lowered", "Near", "Test", "lower"]


@dataclass(frozen=True)
class Lowered:
    """What the kernels and the engine need of a predicate; its texts hold references (see `references`)."""

    slots: BothSides[tuple[Slot, ...]]
    lines: tuple[str, ...]
    """The intermediate results that the condition reads, one assignment each."""
    condition: str
    tests: tuple[Test | Near, ...]
    """The part of the condition that is tests of a known form; where `others` is "True", all of it."""
    others: str
    recheck: tuple[Expr, ...]
    recheck_long_text: tuple[Expr, ...]
    hash_slots: tuple[tuple[int, int], ...]
    """For each equality key: the left's slot and the right's, equal iff the keys are."""
    range_keys: BothSides[tuple[RangeKey, ...]]
    """By stored side: what an ordered index can sort by, the most promising first."""
    sides: BothSides[SideProgram]
    tested: BothSides[tuple[int, ...]]
    """The slots that the condition reads."""
    kept: BothSides[tuple[int, ...]]
    """The slots that a stored tuple needs: those, and its keys. The others are only read while it probes."""

    @property
    def has_order(self) -> bool:
        """Whether an ordered index has a key on at least one side."""
        return bool(self.hash_slots or any((self.range_keys.left, self.range_keys.right)))


def lower(plan: Plan, with_keys: bool = True) -> Lowered:
    """Lower a plan. Deterministic: the same predicate shape gives the same text, and so the same kernel. Without keys,
    no slots are computed that only an ordered index would read."""
    emitter = PairEmitter()
    terms, hash_slots = _keyed_terms(plan, emitter)
    # Atoms first: a slot that an atom requires to be non-NULL needs no validity anywhere else. Then the short terms.
    terms.sort(key=lambda term: (isinstance(term, Call) and term.op in ("and", "or", "case"), count_comparisons(term)))
    pieces: dict[str, Expr] = {}
    for term in terms:
        piece = emitter.term(term)
        if piece != "True":
            pieces.setdefault(piece, term)
    tests = {piece: emitter.tests[piece] for piece in pieces if piece in emitter.tests}
    lines, condition = tuple(emitter.lines), " & ".join(pieces) or "True"
    sure = not emitter.recheck and not emitter.recheck_long_text
    comparisons = [(test, pieces[piece]) for piece, test in tests.items() if isinstance(test, Test)]
    keys = BothSides(
        *(_deciding(range_keys(plan, emitter, comparisons, side), plan, sure) if with_keys else () for side in SIDES)
    )
    slots = BothSides(*(tuple(emitter.slots[side]) for side in SIDES))
    tested = referenced_slots([*lines, condition])
    return Lowered(
        slots=slots,
        lines=lines,
        condition=condition,
        tests=tuple(tests.values()),
        others=" & ".join(piece for piece in pieces if piece not in tests) or "True",
        recheck=tuple(emitter.recheck),
        recheck_long_text=tuple(emitter.recheck_long_text),
        hash_slots=hash_slots,
        range_keys=keys,
        sides=BothSides(*(SideProgram(side, plan.filter_of(side), slots[side]) for side in SIDES)),
        tested=BothSides(*(tuple(sorted(tested[side])) for side in SIDES)),
        kept=BothSides(*(tuple(sorted(tested[side] | _key_slots(side, keys[side], hash_slots))) for side in SIDES)),
    )


def _keyed_terms(plan: Plan, emitter: PairEmitter) -> tuple[list[Expr], tuple[tuple[int, int], ...]]:
    """The pair conditions, equalities in the form that the hash keys have, and the slots of these keys."""
    by_source = {equality.source: equality for equality in plan.equalities}
    terms: list[Expr] = []
    hash_slots: list[tuple[int, int]] = []
    for term in plan.pair:
        equality = by_source.get(term)
        if equality is not None:
            left, right, _ = emitter.pair_slots("eq", equality.left, equality.right)
            hash_slots.append((left, right))
            term = Call("eq", (equality.left, equality.right), BOOLEAN)
        terms.append(term)
    return terms, tuple(hash_slots)


def _deciding(keys: tuple[RangeKey, ...], plan: Plan, sure: bool) -> tuple[RangeKey, ...]:
    """The keys, marked where one of them is all that the predicate asks for."""
    pair = set(plan.pair)
    return tuple(
        replace(key, decides=sure and (key.exact or key.width is not None) and pair <= set(key.sources)) for key in keys
    )


def _key_slots(side: Side, keys: tuple[RangeKey, ...], hash_slots: tuple[tuple[int, int], ...]) -> set[int]:
    """The slots that a stored tuple's place in an index depends on."""
    ordered = {number for key in keys for number in (key.key, key.width, key.regular[0]) if number is not None}
    return ordered | {pair[side == "right"] for pair in hash_slots}
