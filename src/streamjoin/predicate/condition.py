"""The lowered condition as text inside a kernel's loop: slots become array elements and local names.

A kernel's text depends only on the shape of the condition and the widths of its slots, not on column names or
constants of one-sided parts, so most predicates find their kernel compiled already (see `compile.cache`).
"""

from __future__ import annotations

from ..side import Side, other
from .lower import Lowered
from .references import Names, filled

KERNEL_HEADER = '''"""A kernel that streamjoin generated."""
import numpy as np
from numba import njit
from streamjoin.compile.collect import collect
from streamjoin.compile.intrinsics import pointer, prefetch
from streamjoin.predicate.ops_scalar import *

'''


class ConditionText:
    """Names what the lowered condition refers to. In a kernel, the stored slot 3 is the parameter `s3`, its view `v3`
    and its element `v3[j]`; the probing slot 2 is the parameter `p2` and, for one probing tuple (a *lane*), `q2_i`."""

    def __init__(self, lowered: Lowered, stored: Side, at: str = "j") -> None:
        self.lowered = lowered
        self.stored = stored
        self.stored_slots = lowered.tested[stored]
        self.probing_slots = lowered.tested[other(stored)]
        self._elements = Names("v", f"[{at}]")

    def lane(self, text: str, lane: str) -> str:
        """A part of the condition for the probing tuple of one lane."""
        probing = Names("q", f"_{lane}")
        left, right = (self._elements, probing) if self.stored == "left" else (probing, self._elements)
        return filled(text, left, right, result=Names("t", f"_{lane}"), width=Names("w", f"_{lane}"))

    def lines(self, lane: str, indent: int) -> str:
        """The intermediate results that the condition needs."""
        return "".join(f"{' ' * indent}{self.lane(line, lane)}\n" for line in self.lowered.lines)

    def load(self, lane: str, place: str, indent: int) -> str:
        """Reads the slots of the probing tuple at a place."""
        return "".join(f"{' ' * indent}q{k}_{lane} = p{k}[{place}]\n" for k in self.probing_slots)

    def views(self, indent: int, cut: str) -> str:
        """The stored slots, or a slice of them."""
        return "".join(f"{' ' * indent}v{k} = s{k}{cut}\n" for k in self.stored_slots)

    def parameters(self, *middle: str) -> str:
        """The kernel's parameters: stored slots, all but the last of `middle`, probing slots, the last of `middle`."""
        stored = [f"s{k}" for k in self.stored_slots]
        return ", ".join([*stored, *middle[:-1], *(f"p{k}" for k in self.probing_slots), middle[-1]])
