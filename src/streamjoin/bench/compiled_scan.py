"""The product's own scan of one window, without the engine around it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..predicate import Predicate, plan_for
from ..predicate.lower import Lowered, lower
from ..predicate.vector import Frame
from ..side import Side, other
from ..store import Batch, PairSink, Probing, SideWindow
from ..tasks import one_after_another
from .columns import Columns, Pairs
from .workloads import CELLJOIN_SCHEMAS


class CompiledScan:
    """One predicate through the product's own path: slots of the columns, chain of subwindows, compiled scan."""

    def __init__(self, on: Predicate, stored: Side, columns: Columns) -> None:
        self._lowered: Lowered = lower(plan_for(on, CELLJOIN_SCHEMAS["left"], CELLJOIN_SCHEMAS["right"]))
        self._stored = stored
        self._count = len(columns[0])
        self._window = SideWindow(self._lowered, stored, "scan", run_all=one_after_another)
        self._window.insert(self._batch(stored, columns))

    def __call__(self, probes: Columns) -> Pairs:
        sink = PairSink(left_probes=True)  # the kernels decide these predicates alone
        for _ in self._window.probe(Probing(self._batch(other(self._stored), probes)), sink):
            pass
        probing, found = sink.take()
        return np.concatenate([np.empty(0, np.int64), *probing]), np.concatenate([np.empty(0, np.int64), *found])

    def _batch(self, side: Side, columns: Columns) -> Batch:
        names = CELLJOIN_SCHEMAS[side].names
        arrays = {(side, name): pa.array(column) for name, column in zip(names, columns, strict=True)}
        rows = np.arange(len(columns[0]))
        slots = self._lowered.sides[side].run(Frame(len(rows), arrays)).columns
        return Batch(rows, rows, np.zeros_like(rows), np.full_like(rows, self._count), slots)
