"""What all subwindows of one side's window have in common: the predicate, its kernels, and what comparisons cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..arrays import Array
from ..compile.cache import Kernel, LazyKernel
from ..predicate.lower import Lowered
from ..side import Side, other
from ..tasks import Job
from .batch import Batch
from .costs import comparison_cost, costs
from .grid import GridKeys
from .scan_kernel import scan_source

FEW_TESTS = 4
"""Tests of a condition that costs little."""
FEW_STORED = 4
"""Where probing tuples are so many times as many as the stored ones that they reach, each stored tuple is compared with
many probing ones at a time, not each probing tuple with a few stored ones."""
AT_ONCE, AT_ONCE_COMPUTED = 1 << 30, 1 << 23
"""Comparisons of one call of a scan, and of one that computes for each pair, which may take a hundred times longer:
about a tenth of a second, so that Ctrl-C is soon seen."""
SPARES, ROOM_TO_GROW = 2, 8
"""How many expired subwindows' records are kept, and what part of them is added, so that they serve larger ones too."""

T = TypeVar("T")
Template = Callable[[Lowered, Side], str]
"""Writes the text of a kernel for a lowered predicate and the side that is stored."""


@dataclass
class StoredSide:
    """What every subwindow of one stored side needs to know of the predicate. Kernels are compiled when first used."""

    lowered: Lowered
    side: Side
    grid_keys: GridKeys | None = None
    """What a scan may group tuples by; None: it compares with all of them."""
    dtypes: dict[int, str] = field(init=False)
    record: np.dtype[Any] = field(init=False)
    """The slots of one tuple side by side, wide ones first."""
    comparison: float = field(init=False)
    """Nanoseconds that a scan takes to compare two tuples."""
    at_once: int = field(init=False)
    """Comparisons of one call of a scan."""
    workers: int = field(init=False, default=1)
    """How many threads may share the insertion of a batch."""
    spare: list[Array] = field(init=False, default_factory=list)
    """Records of subwindows that have expired. Fresh memory takes longer to touch than tuples take to be stored."""
    deferred: list[Job] = field(init=False, default_factory=list)
    """The storing of tuples that have been taken in. It is done together with the next job, or before they are read."""
    vain_grids: int = field(init=False, default=0)
    """How many of the last grids had so many candidates that the batch was scanned. Threads may lose a count."""
    dearness: float = field(init=False)
    """How many times as much a comparison costs as one of a few tests, or 1 if it costs no more."""
    _kernels: dict[Template, Kernel] = field(init=False, default_factory=dict)
    _entries: dict[str, LazyKernel] = field(init=False, default_factory=dict)
    _turned: Kernel | None = field(init=False, default=None)
    _shared: dict[Any, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        slots = self.lowered.slots[self.side]
        self.dtypes = {number: slots[number].dtype for number in self.lowered.kept[self.side]}
        self.comparison = comparison_cost(self.lowered)
        self.at_once = AT_ONCE_COMPUTED if self.lowered.lines else AT_ONCE
        self.dearness = max(self.comparison / (FEW_TESTS * costs().compare), 1.0)
        by_width = sorted(self.dtypes.items(), key=lambda slot: -np.dtype(slot[1]).itemsize)
        self.record = np.dtype([(str(number), dtype) for number, dtype in by_width], align=True)

    def kernel(self, template: Template, name: str) -> Kernel:
        """A template's kernel for this predicate and side."""
        if template not in self._kernels:
            self._kernels[template] = LazyKernel(template(self.lowered, self.side), name)
        return self._kernels[template]

    def take_deferred(self) -> list[Job]:
        """The deferred jobs, which the caller sees done."""
        jobs, self.deferred = self.deferred, []
        return jobs

    def records(self, count: int) -> Array:
        """Memory for so many records."""
        while self.spare:
            found = self.spare.pop()
            if count <= len(found) < 2 * count:
                return found[:count]
        return np.zeros(count + count // ROOM_TO_GROW, self.record)[:count]

    def entry(self, template: Template, name: str) -> Kernel:
        """The entry of a template's kernel (see `compile.entries`)."""
        if name not in self._entries:
            self._entries[name] = LazyKernel(template(self.lowered, self.side), name)
        return self._entries[name].function

    def turned_kernel(self) -> Kernel:
        """The scan that takes this side's tuples as probing ones."""
        if self._turned is None:
            self._turned = LazyKernel(scan_source(self.lowered, other(self.side)), "scan")
        return self._turned

    def shared(self, kind: Callable[[StoredSide], T]) -> T:
        """The one structure of a kind that all subwindows of this window share."""
        if kind not in self._shared:
            self._shared[kind] = kind(self)
        found: T = self._shared[kind]
        return found

    def forget_shared(self) -> None:
        """The window has no subwindows any more."""
        self._shared.clear()

    def to_scan(self, probes: int, reached: int, together: int) -> float:
        """Nanoseconds to compare probing tuples with all that they reach: so many pairs, of so many stored tuples."""
        known, is_turned = costs(), FEW_STORED * together < probes
        return probes * (known.turned_probe if is_turned else known.scanned_probe) + reached * self.comparison

    def tested(self, slots: Any) -> list[Array]:
        """A stored tuple's slots that the condition reads, in the kernels' order."""
        return [slots[number] for number in self.lowered.tested[self.side]]

    def tested_of_probes(self, batch: Batch) -> list[Array]:
        return [batch.slots[number] for number in self.lowered.tested[other(self.side)]]
