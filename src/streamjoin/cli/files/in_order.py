"""Time order of an input that is too large for memory: checked while it is read, or made on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import Integers
from ...arrow.tables import contiguous, restored, takeable
from ...arrow.times import TimeColumns, read_time
from ...compile.generic import extremes
from ...errors import DataError
from ...side import Side

RUN = 512 << 20
"""Bytes that are sorted in memory at once."""
ROWS = 1 << 15
"""Rows of a batch on disk; the engine, too, takes so many at once."""


class TimeOrder:
    """The time column of one side."""

    def __init__(self, side: Side, name: str, time: TimeColumns, lateness: int) -> None:
        self._side, self._name, self._column, self._time, self._lateness = side, name, time.of(side), time, lateness

    def times(self, rows: pa.Table) -> Integers:
        where = f"{self._side}: {self._name}: time column {self._column!r}"
        return read_time(contiguous(rows.column(self._column)), self._time.unit, where)

    def told(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same rows; DataError says which one has no time."""
        seen = 0
        for table in tables:
            column = table.column(self._column)
            if column.null_count:
                row = seen + 1 + int(np.flatnonzero(np.asarray(column.is_null()))[0])
                raise DataError(
                    f"{self._side}: {self._name}: the time column {self._column!r} is NULL in row {row:,}; a row "
                    "without a time is in no window: leave such rows out"
                )
            seen += table.num_rows
            yield table

    def checked(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same rows, few at a time; DataError says where they go back in time by more than the lateness."""
        reached, seen = None, 0
        for table in tables:
            for start in range(0, table.num_rows, ROWS):
                rows = table.slice(start, ROWS)
                times = self.times(rows)
                earliest, latest = extremes(times)
                if reached is not None and earliest < reached - self._lateness:
                    raise self._goes_back(rows, int(np.argmin(times)), reached, seen)
                reached = latest if reached is None else max(reached, latest)
                seen += rows.num_rows
                yield rows

    def _goes_back(self, rows: pa.Table, row: int, reached: int, seen: int) -> DataError:
        at = rows.column(self._column)[row].as_py()
        back = reached - int(self.times(rows.slice(row, 1))[0])
        unit = {"int": "ticks", "day": "days"}.get(self._time.unit, self._time.unit)
        return DataError(
            f"{self._side}: {self._name} is not in time order: {self._column!r} goes back to {at} in row "
            f"{seen + row + 1:,}, by {back} {unit}. It is too large to be sorted in memory: add --sort to sort it on "
            f'disk first, or --lateness "{back} {unit}" or more if no row is later than that'
        )

    def sorted_table(self, table: pa.Table) -> pa.Table:
        """Rows by time; those of the same time stay in their order."""
        places = pa.array(np.argsort(self.times(table), kind="stable"))
        return restored(takeable(table).take(places), table.schema)

    def sorted_on_disk(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The rows of any number of tables by time. Pieces that fit into memory are sorted and written to a temporary
        folder, then merged."""
        with tempfile.TemporaryDirectory(prefix="streamjoin-") as folder:
            files: list[str] = []
            pieces: list[pa.Table] = []
            taken = 0
            for table in tables:
                pieces.append(table)
                taken += table.nbytes
                if taken > RUN:
                    files.append(self._written(pa.concat_tables(pieces), f"{folder}/{len(files)}.arrow"))
                    pieces, taken = [], 0
            if pieces:
                files.append(self._written(pa.concat_tables(pieces), f"{folder}/{len(files)}.arrow"))
            yield from self._merged([_Run(file, self) for file in files])

    def _written(self, table: pa.Table, file: str) -> str:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(self.sorted_table(table).unify_dictionaries(), max_chunksize=ROWS)
        return file

    def _merged(self, runs: list[_Run]) -> Iterator[pa.Table]:
        """Each round takes all rows up to the earliest end of the batches at hand; that one is then used up. Of rows
        with this very time only those of earlier runs are taken: the others come after the rest of the bounding run."""
        while runs := [run for run in runs if run.refill()]:
            bound, first = min((int(run.times[-1]), number) for number, run in enumerate(runs))
            taken = [run.take(bound, closed=number <= first) for number, run in enumerate(runs)]
            yield self.sorted_table(pa.concat_tables(taken))


class _Run:
    """A sorted file, a batch at a time."""

    def __init__(self, file: str, order: TimeOrder) -> None:
        self._reader = pa.ipc.open_file(pa.memory_map(file))
        self._next, self._order = 0, order
        self._rows: Any = None
        self.times: Integers = np.empty(0, np.int64)

    def refill(self) -> bool:
        """Have rows at hand; False at the end."""
        while not len(self.times) and self._next < self._reader.num_record_batches:
            self._rows = pa.Table.from_batches([self._reader.get_batch(self._next)])
            self.times = self._order.times(self._rows)
            self._next += 1
        return bool(len(self.times))

    def take(self, bound: int, closed: bool) -> pa.Table:
        count = int(np.searchsorted(self.times, bound, "right" if closed else "left"))
        rows, self._rows, self.times = self._rows.slice(0, count), self._rows.slice(count), self.times[count:]
        return rows
