"""Lowering: a plan becomes *slots* (a few integers or floats per tuple) and one condition over two tuples' slots.

Invariant: two tuples match iff both are *live* (their side's filters are true and no slot that must not be NULL is)
and the condition is true for their slots and, for what slots cannot decide, the rechecks are true for their columns.
The condition is monotone in what needs a recheck, so it never loses a pair.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from ..side import SIDES, Side
from .emit import Emitter, NotEmittable, Value, dtype_of, limit_of
from .encode import Domain, Mode
from .expr import COMPARISONS, MIRRORED, STRICT, Call, Cast, Constant, Expr, children, sides, walk
from .keys import RangeKey, range_keys
from .plan import Plan
from .slots import VALIDITY, Encoding, SideProgram, Slot
from .types import BOOLEAN, INTEGER_DIGITS, STRING, Type

MAX_COMPARISONS = 32
"""Comparisons between the streams that are compiled; a longer condition would take too long to compile, so what is
beyond is rechecked column by column on the candidates that the rest lets through."""


@dataclass(frozen=True, slots=True)
class Test:
    """A condition `l<left> op r<right>` between two integer slots that must hold by itself; op is le, ge, eq or ne."""

    left: int
    op: str
    right: int
    bits: int


@dataclass(frozen=True, slots=True)
class Near:
    """A condition `abs(l<left> - r<right>) <= width` on 32-bit integers, in their wrapping arithmetic."""

    left: int
    right: int
    width: int


@dataclass
class Lowered:
    """What the kernels and the engine need of a predicate."""

    slots: dict[Side, list[Slot]]
    lines: tuple[str, ...]
    condition: str
    tests: tuple[Test | Near, ...]
    """The part of the condition that is tests of a known form; where `others` is "True", all of it."""
    others: str
    recheck: tuple[Expr, ...]
    recheck_long_text: tuple[Expr, ...]
    hash_slots: tuple[tuple[int, int], ...]
    """For each equality key: the left's slot and the right's, equal iff the keys are."""
    range_keys: dict[Side, tuple[RangeKey, ...]] = field(default_factory=dict)
    """By stored side: what an ordered index can sort by, the most promising first."""
    sides: dict[Side, SideProgram] = field(default_factory=dict)
    tested: dict[Side, tuple[int, ...]] = field(default_factory=dict)
    """The slots that the condition reads."""
    kept: dict[Side, tuple[int, ...]] = field(default_factory=dict)
    """The slots that a stored tuple needs: those, and its keys. The others are only read while it probes."""

    @property
    def has_order(self) -> bool:
        """Whether an ordered index has a key on at least one side."""
        return bool(self.hash_slots or any(self.range_keys.values()))


def lower(plan: Plan, with_keys: bool = True) -> Lowered:
    """Lower a plan. Deterministic: the same predicate shape gives the same text, and so the same kernel. Without keys,
    no slots are computed that only an ordered index would read."""
    emitter = _PairEmitter()
    terms: list[Expr] = []
    by_source = {equality.source: equality for equality in plan.equalities}
    hash_slots = []
    for term in plan.pair:
        equality = by_source.get(term)
        if equality is not None:
            pair = Call("eq", (equality.left, equality.right), BOOLEAN)
            hash_slots.append(emitter.key_slots(pair))
            terms.append(pair)
        else:
            terms.append(term)
    # Atoms first: a slot that an atom requires to be non-NULL needs no validity anywhere else. Then the short terms.
    terms.sort(key=lambda term: (isinstance(term, Call) and term.op in ("and", "or", "case"), _comparisons(term)))
    pieces: dict[str, Expr] = {}
    for term in terms:
        piece = emitter.term(term)
        if piece != "True":
            pieces.setdefault(piece, term)
    for piece, term in pieces.items():
        test = emitter.tests.get(piece)
        if isinstance(test, Test):
            emitter.comparisons.append((test, term))
    others = [piece for piece in pieces if piece not in emitter.tests]
    lowered = Lowered(
        emitter.slots,
        tuple(emitter.lines),
        " & ".join(pieces) or "True",
        tuple(emitter.tests[piece] for piece in pieces if piece in emitter.tests),
        " & ".join(others) or "True",
        tuple(emitter.recheck),
        tuple(emitter.recheck_long_text),
        tuple(hash_slots),
    )
    for side in SIDES:
        keys = range_keys(plan, emitter, side) if with_keys else []
        sure = not lowered.recheck and not lowered.recheck_long_text
        lowered.range_keys[side] = tuple(
            replace(key, decides=sure and (key.exact or key.width is not None) and set(plan.pair) <= set(key.sources))
            for key in keys
        )
    texts = " ".join([*lowered.lines, lowered.condition])
    for side in SIDES:
        tested = {int(number) for number in re.findall(rf"\b{side[0]}(\d+)\b", texts)}
        own = {number for key in lowered.range_keys[side] for number in (key.key, key.width, key.regular[0])}
        own |= {pair[side == "right"] for pair in lowered.hash_slots}
        lowered.tested[side] = tuple(sorted(tested))
        lowered.kept[side] = tuple(sorted(tested | {number for number in own if number is not None}))
        lowered.sides[side] = SideProgram(side, plan.filter_of(side), lowered.slots[side])
    return lowered


class _PairEmitter(Emitter):
    """Writes the condition over slots `l0, l1, ...` of the left tuple and `r0, r1, ...` of the right one."""

    def __init__(self) -> None:
        super().__init__()
        self.slots: dict[Side, list[Slot]] = {"left": [], "right": []}
        self.recheck: dict[Expr, None] = {}
        self.recheck_long_text: dict[Expr, None] = {}
        self.tests: dict[str, Test | Near] = {}
        self.comparisons: list[tuple[Test, Expr]] = []
        self._top = False
        self._term: Expr | None = None
        self._comparisons = 0
        self._open_questions = 0

    # -- slots ---------------------------------------------------------------------------------------------------

    def slot(self, side: Side, expr: Expr, encoding: Encoding, dtype: str) -> int:
        slots = self.slots[side]
        encoding = _simplest(expr.type, encoding)
        for i, slot in enumerate(slots):
            if slot.expr == expr and slot.encoding == encoding:
                return i
        slots.append(Slot(expr, encoding, dtype))
        return len(slots) - 1

    def _use(self, side: Side, number: int) -> tuple[str, str | None]:
        """The texts of a slot's value and validity. In an atom that must be true by itself, NULL ends it all."""
        slot = self.slots[side][number]
        name = f"{side[0]}{number}"
        if self._top:
            slot.required = True
        if slot.required or slot.encoding.truth:
            return name, None
        if slot.validity is None:
            self.slots[side].append(Slot(slot.expr, VALIDITY, "bool"))
            slot.validity = len(self.slots[side]) - 1
        return name, f"{side[0]}{slot.validity}"

    def leaf(self, expr: Expr) -> Value | None:
        used = sides(expr)
        if len(used) != 1 or (isinstance(expr, Cast) and expr.type.kind == "double" and expr.arg.type.kind == "float"):
            return None
        (side,) = used
        code, valid = self._use(side, self.slot(side, expr, Encoding(), dtype_of(expr.type)))
        return Value(code, valid, expr.type, limit_of(expr.type))

    # -- conditions ----------------------------------------------------------------------------------------------

    def term(self, term: Expr) -> str:
        """One condition that must be true for every matching pair."""
        self._term = term
        comparisons = _comparisons(term)
        if self._comparisons + comparisons > MAX_COMPARISONS:
            return self._ask()
        self._comparisons += comparisons
        self._top = _is_strict(term)
        self._known.clear()
        return self.truth(term)

    def truth(self, expr: Expr) -> str:
        """Text that is True where `expr` is true, and False where it is false or NULL."""
        used = sides(expr)
        if isinstance(expr, Constant):
            return str(expr.value is True)
        if len(used) == 1:
            (side,) = used
            number = self.slot(side, expr, Encoding(truth=True), "bool")
            return f"{side[0]}{number}"
        if isinstance(expr, Call):
            if expr.op in ("and", "or"):
                parts = [self.truth(arg) for arg in expr.args]
                return self.name("(" + (" & " if expr.op == "and" else " | ").join(parts) + ")")
            if expr.op == "case":
                return self._case_truth(expr)
            if expr.op in COMPARISONS:
                return self._comparison(expr)
        return self._undecided(expr)

    def _case_truth(self, expr: Call) -> str:
        """A boolean CASE: where a part of it needs a recheck, all of it does, since conditions are not monotone."""
        before = self._open_questions
        result = self.truth(expr.args[-1])
        for condition, value in reversed(list(zip(expr.args[:-1:2], expr.args[1::2], strict=True))):
            chosen = self.name(self.truth(condition))
            result = self.name(f"pick({chosen}, {self.truth(value)}, {result})")
        return result if self._open_questions == before else self._ask()

    def _undecided(self, expr: Expr) -> str:
        """Any other condition over both streams: compiled if the dialect can say it, else left to the recheck."""
        try:
            return self.name(self.value(expr).truth)
        except NotEmittable:
            return self._ask()

    def _ask(self) -> str:
        """Leave a condition open: true for now, to be decided by a recheck of the term that it is part of."""
        assert self._term is not None
        self._open_questions += 1
        self.recheck[self._term] = None
        return "True"

    def _comparison(self, expr: Call) -> str:
        a, b = expr.args
        if sides(a) == {"right"} and sides(b) == {"left"}:
            expr = Call(MIRRORED[expr.op], (b, a), BOOLEAN)
            a, b = b, a
        if sides(a) != {"left"} or sides(b) != {"right"}:
            code = self._undecided(expr)
            near = self._near(expr) if self._top else None
            if near is not None:
                self.tests[code] = near
            return code
        left, right, op = self._slots_of(expr)
        left_code, left_valid = self._use("left", left)
        right_code, right_valid = self._use("right", right)
        valid = "".join(f" & {v}" for v in (left_valid, right_valid) if v)
        symbol = {"eq": "==", "ne": "!=", "le": "<=", "ge": ">="}[op]
        test = f"({left_code} {symbol} {right_code})"
        domain = self.slots["left"][left].encoding.domain
        if domain in ("prefix", "approximate") or (domain == "hash" and op == "ne"):
            asked = self._ask()
            test = asked if op == "ne" else test
        elif domain == "hash":
            assert self._term is not None
            self._open_questions += 1
            self.recheck_long_text[self._term] = None
        if valid:
            return self.name(f"({test}{valid})")
        if test != "True":
            bits = 32 if self.slots["left"][left].dtype == "int32" else 64
            self.tests[test] = Test(left, op, right, bits)
        return test

    def _near(self, expr: Call) -> Near | None:
        """Recognise abs(l - r) <= constant."""
        for magnitude, limit, op in ((*expr.args, expr.op), (*expr.args[::-1], MIRRORED[expr.op])):
            match magnitude, limit, op:
                case Call("abs", (Call("sub", (a, b), Type("int")),)), Constant(int(width), Type("int")), "le" | "lt":
                    width -= op == "lt"
                    if sides(a) == {"right"} and sides(b) == {"left"}:
                        a, b = b, a
                    if sides(a) == {"left"} and sides(b) == {"right"} and 0 <= width < 2**30:
                        plain = Encoding()
                        return Near(self.slot("left", a, plain, "int32"), self.slot("right", b, plain, "int32"), width)
        return None

    def key_slots(self, equality: Call) -> tuple[int, int]:
        left, right, _ = self._slots_of(equality)
        return left, right

    def _slots_of(self, expr: Call) -> tuple[int, int, str]:
        """Slots for a comparison of a left expression with a right one, and the closed comparison between them."""
        a, b = expr.args
        domain, scale, narrow = _domain(expr.op, a, b)
        op, modes = _closed(expr.op, narrow, domain)
        dtype = "int32" if domain in ("i32", "f32") else "int64"
        if narrow is not None:
            a, b = _uncast(a, domain), _uncast(b, domain)
        left = self.slot("left", a, Encoding(domain, modes[0], scale), dtype)
        right = self.slot("right", b, Encoding(domain, modes[1], scale), dtype)
        return left, right, op


def _simplest(type_: Type, encoding: Encoding) -> Encoding:
    """One name for encodings that give the same numbers, so that they share a slot."""
    if encoding == Encoding() and type_.kind in ("int", "bigint"):
        return Encoding("i32" if type_.kind == "int" else "i64")
    rounds = (encoding.domain == "i32" and not _is_small(type_)) or (encoding.domain == "f32" and type_.kind != "float")
    return encoding if encoding.mode in ("below", "above") or rounds else replace(encoding, mode="exact")


def _comparisons(term: Expr) -> int:
    calls = [node for node in walk(term) if isinstance(node, Call)]
    return sum(call.op in COMPARISONS for call in calls) + sum(len(call.args) - 1 for call in calls if call.op == "in")


def _is_strict(expr: Expr) -> bool:
    """Whether the condition is never true when one of its slots (its one-sided parts) is NULL."""
    if len(sides(expr)) < 2:
        return True
    if isinstance(expr, Call) and expr.op not in STRICT | {"in", "not"}:
        return False
    return all(_is_strict(child) for child in children(expr))


def _is_small(type_: Type) -> bool:
    return type_.kind in ("boolean", "tinyint", "smallint", "int", "date")


def _uncast(expr: Expr, domain: Domain) -> Expr:
    """Drop a lossless widening cast of the operand that is at home in the domain."""
    if not isinstance(expr, Cast):
        return expr
    inner, outer = expr.arg.type, expr.type
    if domain == "f32":
        return expr.arg if inner.kind == "float" and outer.kind == "double" else expr
    if domain != "i32" or not _is_small(inner) or inner.kind == "date":
        return expr
    digits = INTEGER_DIGITS.get(inner.kind, 1)
    holds = outer.kind in ("double", "bigint") or (outer.kind == "decimal" and outer.precision - outer.scale >= digits)
    return expr.arg if holds else expr


def _at_home(expr: Expr, domain: Domain) -> bool:
    """Whether every value of the expression is an element of the domain."""
    type_ = _uncast(expr, domain).type
    return type_.kind == "float" if domain == "f32" else _is_small(type_)


def _domain(op: str, a: Expr, b: Expr) -> tuple[Domain, int, Side | None]:
    """The domain of a comparison, its decimal scale, and which side is at home in it if only one is."""
    if a.type == STRING:
        return ("hash" if op in ("eq", "ne") else "prefix"), 0, None
    numbers = all(x.type.is_numeric or _is_small(x.type) for x in (a, b))
    narrow: tuple[Domain, ...] = ("f32", "i32") if numbers else ()
    for domain in narrow:
        home = [_at_home(x, domain) for x in (a, b)]
        if not any(home) or (domain == "f32" and not (a.type.is_float and b.type.is_float)):
            continue
        if all(home):
            return domain, 0, "left"
        if op != "ne" and all(_encodable(x.type) for x in (a, b)):
            return domain, 0, "left" if home[0] else "right"
    return (*_wide_domain(a, b), None)


def _wide_domain(a: Expr, b: Expr) -> tuple[Domain, int]:
    """The 64-bit domain in which numbers or moments of both types lie, and its decimal scale."""
    if a.type.is_float:
        return "f64", 0
    if "decimal" in (a.type.kind, b.type.kind):
        scale = max(a.type.scale, b.type.scale)
        finer = [x.type for x in (a, b) if x.type.scale == scale]
        fits = all(_encodable(x.type) for x in (a, b)) and any(t.kind != "decimal" or t.precision <= 18 for t in finer)
        return ("decimal", scale) if fits else ("approximate", 0)
    return "i64", 0


def key_comparison(op: str, key: Expr, bound: Expr, stored: Side) -> tuple[Slot, Slot]:
    """Slots for `key op bound` such that the key enters the domain as it is, whatever the bound and the operator."""
    from .bind import comparable

    a, b = (key, bound) if stored == "left" else (bound, key)
    op = op if stored == "left" else MIRRORED[op]
    a, b = comparable(op, a, b)
    domain, scale, narrow = _domain(op, a, b)
    if narrow is not None:
        if _at_home(a if stored == "left" else b, domain):
            a, b = _uncast(a, domain), _uncast(b, domain)
        else:
            domain, scale = _wide_domain(a, b)
    _, modes = _closed(op, stored, domain)
    dtype = "int32" if domain in ("i32", "f32") else "int64"
    slots = Slot(a, Encoding(domain, modes[0], scale), dtype), Slot(b, Encoding(domain, modes[1], scale), dtype)
    return slots if stored == "left" else slots[::-1]


def _encodable(type_: Type) -> bool:
    return type_.kind != "decimal" or type_.precision <= 18


_FROM_ABOVE: dict[str, Mode] = {"lt": "below", "le": "floor", "gt": "above", "ge": "ceil"}
_FROM_BELOW: dict[str, Mode] = {"lt": "above", "le": "ceil", "gt": "below", "ge": "floor"}


def _closed(op: str, narrow: Side | None, domain: Domain) -> tuple[str, tuple[Mode, Mode]]:
    """Turn < and > into <= and >= by rounding the operand that is not at home."""
    if op in ("eq", "ne"):
        return op, ("exact", "exact")
    closed = {"lt": "le", "le": "le", "gt": "ge", "ge": "ge"}[op]
    if domain in ("prefix", "approximate"):
        return closed, ("exact", "exact")
    if narrow == "right":  # the left operand is rounded: seen from the right, l < r is r > l
        return closed, (_FROM_BELOW[op], "exact")
    return closed, ("exact", _FROM_ABOVE[op])
