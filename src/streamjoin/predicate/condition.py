"""The lowered condition as text inside a kernel's loop: slots become array elements and local names.

A kernel's text depends only on the shape of the condition and the widths of its slots, not on column names or
constants of one-sided parts, so most predicates find their kernel compiled already (see `compile.cache`).
"""

from __future__ import annotations

import re

from ..side import Side, other
from .lower import Lowered

KERNEL_HEADER = '''"""A kernel that streamjoin generated."""
import numpy as np
from numba import njit
from streamjoin.compile.collect import collect
from streamjoin.compile.intrinsics import pointer, prefetch
from streamjoin.predicate.ops_scalar import *

'''


class ConditionText:
    """Renames `l3` and `r2` of the lowered condition: stored slots to `v3[j]`, probing ones to `q2_<lane>`."""

    def __init__(self, lowered: Lowered, stored: Side, at: str = "j") -> None:
        self.at = at
        self.lowered = lowered
        self.stored = stored
        self.stored_slots = lowered.tested[stored]
        self.probing_slots = lowered.tested[other(stored)]

    def lane(self, text: str, lane: str) -> str:
        def rename(match: re.Match[str]) -> str:
            kind, number = match[1], match[2]
            if kind == "t":
                return f"t{number}_{lane}"
            return f"v{number}[{self.at}]" if kind == self.stored[0] else f"q{number}_{lane}"

        return re.sub(r"\b([lrt])(\d+)\b", rename, text)

    def lines(self, lane: str, indent: int) -> str:
        return "".join(f"{' ' * indent}{self.lane(line, lane)}\n" for line in self.lowered.lines)

    def load(self, lane: str, place: str, indent: int) -> str:
        return "".join(f"{' ' * indent}q{k}_{lane} = p{k}[{place}]\n" for k in self.probing_slots)

    def views(self, indent: int, cut: str) -> str:
        return "".join(f"{' ' * indent}v{k} = s{k}{cut}\n" for k in self.stored_slots)

    def parameters(self, *middle: str) -> str:
        stored = [f"s{k}" for k in self.stored_slots]
        return ", ".join([*stored, *middle[:-1], *(f"p{k}" for k in self.probing_slots), middle[-1]])
