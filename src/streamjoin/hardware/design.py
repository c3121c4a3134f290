"""What can be chosen about a handshake join circuit, checked at the call."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from ..errors import ArgumentError
from ..options import choose

Admission = Literal["lossless", "discard"]
"""What happens to a tuple that arrives while a queue is full: it waits at the input, or is dropped as in the paper."""
Scope = Literal["all", "core"]
"""Who rests while a queue is full: every core, as in the paper, or the core whose queue it is."""
MergerKind = Literal["paper", "full-rate"]
"""Two results in three clocks, as the paper's states have it, or one in every clock."""

MOST_CORES, LONGEST_SEGMENT = 256, 1 << 20
LEAST_RAM_ROWS = 3
"""In block RAM, a tuple about to leave is read ahead of time, which takes this long after a shift."""
LEAST_CORE_BUFFER, LEAST_MERGER_BUFFER = 3, 2


@dataclass(frozen=True, slots=True)
class Design:
    """A circuit's parameters. The defaults are the FPGA paper's, but for `admission` and fewer cores."""

    cores: int = 8
    segment: int = 8
    """Tuples of each stream per core."""
    lanes: int = 1
    """Comparators per core, each with its share of the segment."""
    ram: bool = False
    """Windows in block RAM instead of shift registers."""
    merger: MergerKind = "paper"
    scope: Scope = "all"
    admission: Admission = "lossless"
    core_buffer: int = 8
    merger_buffer: int = 4

    @property
    def rows(self) -> int:
        """Clocks for one tuple."""
        return self.segment // self.lanes

    @property
    def window(self) -> int:
        return self.cores * self.segment


def check_design(**given: Any) -> Design:
    """A design from keyword arguments; ArgumentError names the one that will not do."""
    known = [field.name for field in fields(Design)]
    for name in given:
        if name not in known:
            raise ArgumentError(f"{name}: there is no such argument; the design has {', '.join(known)}")
    design = Design(**given)
    _whole("cores", design.cores, 1, MOST_CORES)
    _whole("segment", design.segment, 1, LONGEST_SEGMENT)
    _whole("lanes", design.lanes, 1, design.segment)
    _whole("core_buffer", design.core_buffer, LEAST_CORE_BUFFER, 1 << 16)
    _whole("merger_buffer", design.merger_buffer, LEAST_MERGER_BUFFER, 1 << 16)
    if not isinstance(design.ram, bool):
        raise ArgumentError(f"ram: {design.ram!r} will not do; give True or False")
    choose("merger", design.merger, get_args(MergerKind))
    choose("scope", design.scope, get_args(Scope))
    choose("admission", design.admission, get_args(Admission))
    if design.segment % design.lanes:
        raise ArgumentError(
            f"lanes: {design.lanes} does not divide the segment of {design.segment}; each has its share"
        )
    if design.ram and design.rows < LEAST_RAM_ROWS:
        raise ArgumentError(
            f"segment: {design.segment} will not do for {design.lanes} lanes in block RAM; give {LEAST_RAM_ROWS} for "
            f"each lane, {LEAST_RAM_ROWS * design.lanes} in all, or more"
        )
    return design


def _whole(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ArgumentError(f"{name}: {value!r} will not do; give a whole number from {least} to {most}")
