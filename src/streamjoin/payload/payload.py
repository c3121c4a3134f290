"""The columns of a stream's rows, by row number, for as long as they can still be part of a result.

Rows are appended in arrival order and keep their number for ever. Numbers, moments and texts are copied once into
records, row by row (`records`). Columns of other types stay in the Arrow batches they came in (`kept_batches`).
Compiled code takes the records apart again, in parallel (`gather`).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from ..arrays import Rows
from ..arrow.tables import restored, takeable
from ..compile.generic import extremes
from ..tasks import RunAll
from .gather import SEGMENT_BITS
from .kept_batches import KeptBatches
from .records import Records, check_lengths, record_width


class Payload:
    """Rows [first, end) of a stream. `run_all` runs the tasks of a gathering, in parallel or one after another.

    Until machine code `is_ready`, rows stay in the tables they came in, and Arrow takes them from there.
    """

    def __init__(self, schema: pa.Schema, run_all: RunAll, is_ready: Callable[[], bool] = lambda: True) -> None:
        self.schema, self._names = schema, schema.names
        self._run_all, self._is_ready = run_all, is_ready
        kept = {field.name: width for field in schema if (width := record_width(field.type)) is not None}
        self._records = Records({name: (schema.field(name).type, width) for name, width in kept.items()})
        self._others = KeptBatches(pa.schema([field for field in schema if field.name not in kept]))
        self._unsettled: list[tuple[int, pa.Table]] = []
        self.first = self.end = 0

    @property
    def rows(self) -> int:
        return self.end - self.first

    def check(self, table: pa.Table, argument: str) -> None:
        """DataError for values that cannot be kept."""
        for name, field in self._records.columns.items():
            if field.is_text:
                check_lengths(f"{argument}: column {name!r}", table.column(name))

    def append(self, table: pa.Table) -> None:
        """Give the table's rows their numbers; they are copied by `settle`, which may be called later."""
        if table.num_rows:
            self._unsettled.append((self.end, table))
            self.end += table.num_rows

    def settle(self) -> None:
        if not self._is_ready():
            return
        waiting, self._unsettled = self._unsettled, []
        for row, table in waiting:
            self._records.append(row, table)
            if self._others.schema.names:
                self._others.append(table.select(self._others.schema.names))

    def release(self, floor: int) -> None:
        """Forget rows below this number, as far as they lie in whole segments (and, of other types, batches)."""
        self.settle()
        if self._unsettled:
            return
        self.first = max(self.first, self.end if floor >= self.end else floor >> SEGMENT_BITS << SEGMENT_BITS)
        self._records.release(self.first >> SEGMENT_BITS)
        self._others.release(floor)

    def take(self, rows: Rows, columns: list[str] | None = None) -> pa.Table:
        """The given rows, in the given order; row number -1 gives NULLs."""
        names = self._names if columns is None else columns
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_arrays(self.arrays(rows, names), schema=schema)

    def arrays(self, rows: Rows, columns: list[str] | None = None) -> list[pa.Array | pa.ChunkedArray]:
        """The same, column by column."""
        self.settle()
        earliest, _ = extremes(rows)
        if earliest < self.first and bool(((rows >= 0) & (rows < self.first)).any()):
            raise IndexError(f"rows below {self.first} have been released")
        names = self._names if columns is None else columns
        if self._unsettled:
            return self._from_tables(rows, names)
        kept = [name for name in names if name in self._records.columns]
        taken = dict(zip(kept, self._records.take(rows, kept, earliest < 0, self._run_all), strict=True))
        others = [name for name in names if name not in taken]
        if others:
            table = self._others.take(rows, others)
            taken |= {name: table.column(name) for name in others}
        return [taken[name] for name in names]

    def _from_tables(self, rows: Rows, names: list[str]) -> list[pa.Array | pa.ChunkedArray]:
        """Columns of rows that have not been copied into records."""
        base = self._unsettled[0][0]
        table = takeable(pa.concat_tables(table.select(names) for _, table in self._unsettled))
        absent = rows < 0
        places = pa.array(rows - base, mask=absent) if absent.any() else pa.array(rows - base)
        schema = pa.schema([self.schema.field(name) for name in names])
        return list(restored(table.take(places), schema).columns)
