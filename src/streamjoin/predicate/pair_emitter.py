"""Writes the condition over two tuples' slots, and collects the slots and the rechecks that it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..side import Side
from .dialect import is_wide
from .domains import comparison_slots, simplest
from .emit import Emitter, NotEmittable, Value, dtype_of, limit_of
from .expr import COMPARISONS, MIRRORED, STRICT, Call, Cast, Constant, Expr, children, sides, walk
from .references import is_reference, reference
from .slots import VALIDITY, Encoding, Slot
from .types import BOOLEAN, Type

MAX_COMPARISONS = 32
"""Comparisons between the streams that are compiled. A longer condition would take too long to compile; the rest of
it is rechecked column by column on the candidates that the compiled part lets through."""


@dataclass(frozen=True, slots=True)
class Test:
    """A condition `left op right` between two integer slots that must hold by itself; op is le, ge, eq or ne."""

    left: int
    op: str
    right: int
    bits: int


@dataclass(frozen=True, slots=True)
class Near:
    """A condition `abs(left - right) <= width` on two 32-bit slots, in their wrapping arithmetic."""

    left: int
    right: int
    width: int


class PairEmitter(Emitter):
    """Writes terms one by one. `slots` grows as terms need more, and may still change: a slot becomes required when a
    later term says so."""

    words: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        self.slots: dict[Side, list[Slot]] = {"left": [], "right": []}
        self.recheck: dict[Expr, None] = {}
        self.recheck_long_text: dict[Expr, None] = {}
        self.tests: dict[str, Test | Near] = {}
        """The texts that are tests of a known form."""
        self._top = False
        self._term: Expr | None = None
        self._comparisons = 0
        self._open_questions = 0

    # -- slots ---------------------------------------------------------------------------------------------------

    def slot(self, side: Side, expr: Expr, encoding: Encoding, dtype: str) -> int:
        """The number of the slot that holds an encoded expression; a new one where there is none yet."""
        slots = self.slots[side]
        encoding = simplest(expr.type, encoding)
        for i, slot in enumerate(slots):
            if slot.expr == expr and slot.encoding == encoding:
                return i
        slots.append(Slot(expr, encoding, dtype))
        return len(slots) - 1

    def like(self, side: Side, slot: Slot) -> int:
        """The number of a slot that holds the same."""
        return self.slot(side, slot.expr, slot.encoding, slot.dtype)

    def require(self, side: Side, number: int) -> None:
        """A tuple in which this slot is NULL can match nothing."""
        self.slots[side][number] = replace(self.slots[side][number], required=True)

    def validity(self, side: Side, number: int) -> int | None:
        """The number of the slot that says where this one is not NULL; None if that needs no saying."""
        slot = self.slots[side][number]
        if slot.required or slot.encoding.truth:
            return None
        if slot.validity is None:
            self.slots[side].append(Slot(slot.expr, VALIDITY, "bool"))
            slot = self.slots[side][number] = replace(slot, validity=len(self.slots[side]) - 1)
        return slot.validity

    def pair_slots(self, op: str, left: Expr, right: Expr) -> tuple[int, int, str]:
        """Slots for a comparison of a left expression with a right one, and the closed comparison between them."""
        own, its, closed = comparison_slots(op, left, right)
        return self.like("left", own), self.like("right", its), closed

    def _use(self, side: Side, number: int) -> tuple[str, str | None]:
        """The texts of a slot's value and validity. In an atom that must be true by itself, the slot becomes
        required."""
        if self._top:
            self.require(side, number)
        validity = self.validity(side, number)
        return reference(side, number), None if validity is None else reference(side, validity)

    # -- the dialect ---------------------------------------------------------------------------------------------

    def leaf(self, expr: Expr) -> Value | None:
        used = sides(expr)
        if len(used) != 1 or (isinstance(expr, Cast) and expr.type.kind == "double" and expr.arg.type.kind == "float"):
            return None
        (side,) = used
        if is_wide(expr.type):
            high, valid = self._use(side, self.slot(side, expr, Encoding("high"), "int64"))
            low = reference(side, self.slot(side, expr, Encoding("low"), "int64"))
            return Value(self.name(f"wjoin({high}, {low})"), valid, expr.type, limit_of(expr.type))
        code, valid = self._use(side, self.slot(side, expr, Encoding(), dtype_of(expr.type)))
        return Value(code, valid, expr.type, limit_of(expr.type))

    def result_name(self, number: int) -> str:
        return reference("result", number)

    def is_name(self, code: str) -> bool:
        return is_reference(code) or super().is_name(code)

    # -- conditions ----------------------------------------------------------------------------------------------

    def term(self, term: Expr) -> str:
        """One condition that must be true for every matching pair."""
        self._term = term
        comparisons = count_comparisons(term)
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
            return reference(side, self.slot(side, expr, Encoding(truth=True), "bool"))
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
        left, right, op = self.pair_slots(expr.op, a, b)
        left_code, left_valid = self._use("left", left)
        right_code, right_valid = self._use("right", right)
        valid = "".join(f" & {v}" for v in (left_valid, right_valid) if v)
        test = f"({left_code} {SYMBOLS[op]} {right_code})"
        domain = self.slots["left"][left].encoding.domain
        if domain == "approximate":
            exact = self.compare(expr.op, self.value(a), self.value(b))
            test = f"({test} & {exact})" if op != "ne" else exact
        elif domain == "prefix" or (domain == "hash" and op == "ne"):
            asked = self._ask()
            test = asked if op == "ne" else test
        elif domain == "hash":
            assert self._term is not None
            self._open_questions += 1
            self.recheck_long_text[self._term] = None
        if valid or domain == "approximate":
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


SYMBOLS = {"eq": "==", "ne": "!=", "le": "<=", "ge": ">="}
"""The closed comparisons as the dialect writes them."""


def count_comparisons(term: Expr) -> int:
    calls = [node for node in walk(term) if isinstance(node, Call)]
    return sum(call.op in COMPARISONS for call in calls) + sum(len(call.args) - 1 for call in calls if call.op == "in")


def _is_strict(expr: Expr) -> bool:
    """Whether the condition is never true when one of its slots (its one-sided parts) is NULL."""
    if len(sides(expr)) < 2:
        return True
    if isinstance(expr, Call) and expr.op not in STRICT | {"in", "not"}:
        return False
    return all(_is_strict(child) for child in children(expr))
