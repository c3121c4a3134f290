"""Unpack: packed results become rows again (PanJoin, section III-A, step 5)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from ..side import SIDES
from .handover import handed_over
from .messages import from_bytes
from .outputs import FIGURES, FILED, RESULT
from .process import spare_collector
from .spec import JoinSpec

LATE = "late"
"""The column that names the side of a late row. The result has it only with `late="keep"`."""


class Unpack:
    """Turns the workers' output into rows; a function for `DataFrame.mapInArrow`."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_collector()
        for batch in batches:
            found = list(zip(batch.column("kind").to_pylist(), batch.column("body"), strict=True))
            # At once: whoever takes only some rows, as `isEmpty` does, must not leave files behind.
            filed = [handed_over(os.fsdecode(body.as_py())) for kind, body in found if kind == FILED]
            for table in filed:
                yield from self._rows(RESULT, table).to_batches()
            for kind, body in found:
                if kind not in (FILED, FIGURES):
                    yield from self._rows(kind, from_bytes(body.as_buffer())).to_batches()

    def _rows(self, kind: str, table: pa.Table) -> pa.Table:
        spec = self._spec
        if not spec.keeps_late:
            return table
        for side in SIDES:
            if kind == side:
                return spec.alone(side, table).append_column(LATE, pa.repeat(side, table.num_rows))
        return table.append_column(LATE, pa.nulls(table.num_rows, pa.string()))
