"""A condition as the GPU's kernels test it: one word of each tuple says where it has NULLs.

Where no tuple has any, which is usual, there is far less to test. So each scan has two kernels: one reads no such word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ..arrays import Array
from ..predicate.lower import Lowered
from ..predicate.references import is_reference, reference, referenced_slots
from ..side import SIDES, BothSides, Side

Slots: TypeAlias = Sequence[Array] | Mapping[int, Array]
"""The slots of some tuples, by number."""
MOST_BITS = 31
_SIMPLER = (
    (re.compile(r" & True\b|\bTrue & "), ""),
    (re.compile(r"(?<![\w])\((True|\{\w+\[\d+\]\})\)"), r"\1"),
)
"""What takes True out of a chain of ANDs, and parentheses away from a single name."""


class GpuCondition:
    """`whole` reads a word of each tuple, in which a bit is set for each slot that is NULL. `without_nulls` is the same
    for tuples whose words are 0, and does not read them. Neither reads the slots that the words are made of.

    The word of a tuple is one more slot of its side. The two sides have different bits.
    """

    def __init__(self, lowered: Lowered) -> None:
        self._nullable = {side: _validities(lowered, side) for side in SIDES}
        left, right = self._nullable["left"], self._nullable["right"]
        if len(left) + len(right) > MOST_BITS:
            left, right = self._nullable["left"], self._nullable["right"] = (), ()
        self.has_words = bool(left or right)
        names = [reference("left", number) for number in left] + [reference("right", number) for number in right]
        self._bits = {name: 1 << place for place, name in enumerate(names)}
        self._number = {side: len(lowered.slots[side]) for side in SIDES}
        self.whole = self._with_words(lowered) if names else lowered
        self.without_nulls = _without(lowered, dict.fromkeys(names, "True")) if names else lowered

    def columns(self, side: Side) -> tuple[int, ...]:
        """The slots that the kernels read of a side's tuples."""
        return self.whole.tested[side]

    def dtype(self, side: Side, number: int) -> str:
        return self.whole.slots[side][number].dtype

    def values(self, side: Side, number: int, slots: Slots, begin: int, end: int) -> Array:
        """One of these slots, of the tuples at places [begin, end)."""
        if number != self._number[side] or not self.has_words:
            return slots[number][begin:end]
        words = np.zeros(end - begin, np.int32)
        for own in self._nullable[side]:
            words |= ~slots[own][begin:end] * np.int32(self._bits[reference(side, own)])
        return words

    def has_nulls(self, side: Side, slots: Slots, begin: int, end: int) -> bool:
        """Whether the word of any of these tuples is not 0."""
        return not all(slots[number][begin:end].all() for number in self._nullable[side])

    def _with_words(self, lowered: Lowered) -> Lowered:
        left, right = (reference(side, self._number[side]) for side in SIDES)
        one = "|".join(re.escape(name) for name in self._bits)
        chain = re.compile(rf"(?:{one})(?: & (?:{one}))*")

        def test(found: re.Match[str]) -> str:
            mask = sum(self._bits[name] for name in set(found[0].split(" & ")))
            return f"((({left} | {right}) & i32({mask})) == i32(0))"

        lines, condition = [chain.sub(test, line) for line in lowered.lines], chain.sub(test, lowered.condition)
        word = replace((*lowered.slots.left, *lowered.slots.right)[0], dtype="int32")
        slots = BothSides(*((*lowered.slots[side], word) for side in SIDES))
        return _changed(replace(lowered, slots=slots), lines, condition, chain.sub(test, lowered.others))


def _validities(lowered: Lowered, side: Side) -> tuple[int, ...]:
    """The slots that the condition reads and that say where other slots are not NULL."""
    found = {slot.validity for slot in lowered.slots[side]}
    return tuple(number for number in lowered.tested[side] if number in found)


def _without(lowered: Lowered, known: dict[str, str]) -> Lowered:
    """The same where some references are known to be true."""
    lines = []
    for line in lowered.lines:
        name, code = line.split(" = ", 1)
        code = _shortened(code, known)
        if code == "True" or is_reference(code):
            known[name] = code
        else:
            lines.append(f"{name} = {code}")
    return _changed(lowered, lines, _shortened(lowered.condition, known), _shortened(lowered.others, known))


def _shortened(text: str, known: Mapping[str, str]) -> str:
    """The text with what is known in place of references, and without what that makes superfluous."""
    for name, code in known.items():
        text = text.replace(name, code)
    before = ""
    while text != before:
        before = text
        for pattern, shorter in _SIMPLER:
            text = pattern.sub(shorter, text)
    return text


def _changed(lowered: Lowered, lines: Sequence[str], condition: str, others: str) -> Lowered:
    tested = referenced_slots([*lines, condition])
    return replace(
        lowered, lines=tuple(lines), condition=condition, others=others,
        tested=BothSides(*(tuple(sorted(tested[side])) for side in SIDES)),
    )  # fmt: skip
