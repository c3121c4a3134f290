"""The parameters of a handshake join circuit, checked when they are given."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from ..arguments import choose
from ..errors import ArgumentError

Admission = Literal["lossless", "discard"]
"""What happens to a tuple that arrives while a queue is full: it waits at the input, or is dropped, as in the paper."""
Scope = Literal["all", "core"]
"""Which cores pause while a queue is full: all of them, as in the paper, or only the core that has the queue."""
MergerKind = Literal["paper", "full-rate"]
"""A merger's speed: two results in three clocks, as in the paper, or one result per clock."""

MOST_CORES, LONGEST_SEGMENT = 256, 1 << 20
LEAST_RAM_ROWS = 3
"""Block RAM must fetch the tuple that leaves next; that takes this many clocks after a shift."""
LEAST_CORE_BUFFER, LEAST_MERGER_BUFFER = 3, 2


@dataclass(frozen=True, slots=True)
class Design:
    """A circuit's parameters. The defaults are the FPGA paper's, except `admission` and the number of cores."""

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

    def __post_init__(self) -> None:
        _whole("cores", self.cores, 1, MOST_CORES)
        _whole("segment", self.segment, 1, LONGEST_SEGMENT)
        _whole("lanes", self.lanes, 1, self.segment)
        _whole("core_buffer", self.core_buffer, LEAST_CORE_BUFFER, 1 << 16)
        _whole("merger_buffer", self.merger_buffer, LEAST_MERGER_BUFFER, 1 << 16)
        if not isinstance(self.ram, bool):
            raise ArgumentError(f"ram: {self.ram!r} is not valid; give True or False")
        choose("merger", self.merger, get_args(MergerKind))
        choose("scope", self.scope, get_args(Scope))
        choose("admission", self.admission, get_args(Admission))
        if self.segment % self.lanes:
            raise ArgumentError(
                f"lanes: {self.lanes} does not divide the segment of {self.segment}; every lane has an equal share"
            )
        if self.ram and self.rows < LEAST_RAM_ROWS:
            raise ArgumentError(
                f"segment: {self.segment} is not valid for {self.lanes} lanes in block RAM; give {LEAST_RAM_ROWS} for "
                f"each lane, {LEAST_RAM_ROWS * self.lanes} in all, or more"
            )

    @property
    def rows(self) -> int:
        """Clocks for one tuple."""
        return self.segment // self.lanes

    @property
    def window(self) -> int:
        return self.cores * self.segment


def check_design(**given: Any) -> Design:
    """A design from keyword arguments; ArgumentError names the one that is not valid."""
    known = [field.name for field in fields(Design)]
    for name in given:
        if name not in known:
            raise ArgumentError(f"{name}: there is no such argument; the design has {', '.join(known)}")
    return Design(**given)


def _whole(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ArgumentError(f"{name}: {value!r} is not valid; give a whole number from {least} to {most}")
