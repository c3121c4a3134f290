"""The columns of a stream's rows, by row number, for as long as they can still be part of a result.

Rows are appended in arrival order and keep their number for ever. Numbers, moments and texts are copied once into
records, row by row (`records`). Columns of other types stay in the Arrow batches they came in (`kept_batches`).
Compiled code takes the records apart again, in parallel (`taking`, `gather`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Mask, Rows
from ..arrow.tables import restored, takeable
from ..tasks import Job, RunAll, Walk, one_after_another
from .gather import SEGMENT_BITS
from .kept_batches import KeptBatches
from .plain import Layout, few_columns, layout_of
from .records import Records, check_lengths
from .same_texts import TextPlace, same_texts
from .taking import Column, Place, Taking

FEW_ROWS = 1 << 13
"""So few results are gathered before another thread would be awake."""


class Payload:
    """Rows [first, end) of a stream. `run_all` runs the tasks of a gathering, in parallel or one after another.

    Until machine code `is_ready`, rows stay in the tables they came in, and Arrow takes them from there.
    """

    def __init__(self, schema: pa.Schema, run_all: RunAll, is_ready: Callable[[], bool] = lambda: True) -> None:
        self.schema, self._names = schema, schema.names
        self._run_all, self._is_ready = run_all, is_ready
        self._records = Records(schema)
        self._other_names = [name for name in self._names if name not in self._records.columns]
        self._others = KeptBatches(pa.schema([schema.field(name) for name in self._other_names]))
        self._all = tuple(self._names)
        self._texts = [name for name, field in self._records.columns.items() if field.is_text]
        self._unsettled: list[tuple[int, pa.Table, Sequence[pa.Array] | None]] = []
        """Rows that wait to be copied: the number of the first one, their table, and its columns if each is one array.
        """
        self._settling = threading.Lock()
        self._layout: Layout | None = None
        """How few rows of all columns are gathered; it serves until segments come or go."""
        self.first = self.end = 0

    @property
    def rows(self) -> int:
        return self.end - self.first

    def check(self, table: pa.Table, argument: str) -> None:
        """DataError for values that cannot be kept."""
        for name in self._texts:
            check_lengths(f"{argument}: column {name!r}", table.column(name))

    def append(self, table: pa.Table, arrays: Sequence[pa.Array] | None = None) -> None:
        """Give the table's rows their numbers; they are copied by `settle`, which may be called later."""
        if table.num_rows:
            self._unsettled.append((self.end, table, arrays))
            self.end += table.num_rows

    def settle(self) -> None:
        """Copy the rows that wait for it. Several threads may ask for that: each sees all of them waiting, or none."""
        if not self._unsettled or not self._is_ready():
            return
        with self._settling:
            jobs = self._settled()
            if jobs:
                self._run_all(jobs)
            self._unsettled = []

    def settling(self) -> Walk:
        """The same in stages, for the thread that appends."""
        if self._unsettled and self._is_ready():
            with self._settling:
                yield self._settled()
                self._unsettled = []

    def _settled(self) -> list[Job]:
        jobs: list[Job] = []
        for row, table, arrays in self._unsettled:
            jobs += self._records.append(row, table, arrays)
            if self._other_names:
                self._others.append(table.select(self._other_names))
        return jobs

    def release(self, floor: int) -> None:
        """Forget rows below this number, as far as they lie in whole segments (and, of other types, batches)."""
        self.settle()
        if self._unsettled:
            while len(self._unsettled) > 1 and self._unsettled[1][0] <= floor:
                self._unsettled.pop(0)
            self.first = max(self.first, self._unsettled[0][0])
            return
        self.first = max(self.first, self.end if floor >= self.end else floor >> SEGMENT_BITS << SEGMENT_BITS)
        self._records.release(self.first >> SEGMENT_BITS)
        self._others.release(floor)

    def take(self, rows: Rows, columns: list[str] | None = None) -> pa.Table:
        """The given rows, in the given order; row number -1 gives NULLs."""
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_arrays(self.arrays(rows, columns), schema=schema)

    def arrays(self, rows: Rows, columns: list[str] | None = None) -> list[Column]:
        """The same, column by column."""
        return gathered([self], [[np.ascontiguousarray(rows)]], self._run_all, columns)

    def parted(self, columns: list[str] | None) -> tuple[list[str], Place, list[str]]:
        """Some columns, or all: where those of them lie that are in records, and the others."""
        self.settle()
        names = self._names if columns is None else columns
        if self._unsettled or not self._is_ready():
            return names, self._records.place((), self.first), names
        if columns is None:
            return names, self._records.place(self._all, self.first), self._other_names
        others = [name for name in names if name in self._other_names]
        return names, self._records.place(tuple(names), self.first), others

    def layout(self) -> Layout | None:
        """How to gather few rows; None: not all columns are in records, are values, and have had no NULL."""
        if not self._records.is_plain or self._other_names:
            return None
        if self._unsettled:
            self.settle()
            if self._unsettled or not self._records.is_plain:
                return None
        known, place = self._layout, self._records.place(self._all, self.first)
        if known is None or known.place is not place:
            known = self._layout = layout_of(place)
        return known

    def take_others(self, pieces: Sequence[Rows], names: list[str]) -> list[Column]:
        """Those that are not in records, or not yet."""
        rows = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.int64), *pieces])
        waiting = self._unsettled
        if waiting or not self._is_ready():
            return self._from_tables(waiting, rows, names)
        if any(name not in self._other_names for name in names):  # another thread has settled them meanwhile
            return gathered([self], [[np.ascontiguousarray(rows)]], one_after_another, names)
        if ((rows >= 0) & (rows < self.first)).any():
            raise IndexError(f"rows below {self.first} have been released")
        columns: list[Column] = self._others.take(rows, names).columns
        return columns

    def text_place(self, name: str) -> TextPlace | None:
        """Where the texts of a column lie, for `same_texts`; None if they are not in records (yet)."""
        self.settle()
        return None if self._unsettled else self._records.text_place(name)

    def _from_tables(self, waiting: Sequence[tuple[int, pa.Table, Any]], rows: Rows, names: list[str]) -> list[Column]:
        """Columns of rows that have not been copied into records. There may be none: then all rows are missing."""
        base = waiting[0][0] if waiting else 0
        tables = [table for _, table, _ in waiting] or [self.schema.empty_table()]
        table = takeable(pa.concat_tables(table.select(names) for table in tables))
        absent = rows < 0
        places = pa.array(rows - base, mask=absent) if absent.any() else pa.array(rows - base)
        schema = pa.schema([self.schema.field(name) for name in names])
        return list(restored(table.take(places), schema).columns)


def gathered(
    sides: Sequence[Payload], rows: Sequence[Sequence[Rows]], run_all: RunAll, columns: list[str] | None = None
) -> list[Column]:
    """All columns of one side, or of both, or those that are named. `rows` has the row numbers of each side, piece by
    piece. The tasks of both sides share the workers, so no side waits for the other."""
    if columns is None:
        layouts = [layout for payload in sides if (layout := payload.layout()) is not None]
        few = few_columns(layouts, rows) if len(layouts) == len(sides) else None
        if few is not None:
            return list(few)
    parted, places, tasks = [], [], []
    for side, payload in enumerate(sides):
        names, place, others = payload.parted(columns)
        parted.append((names, others))
        places.append(place)
        if others:
            tasks.append(partial(payload.take_others, rows[side], others))
    taking, separate = Taking(places, rows), bool(tasks)
    run = run_all if taking.count > FEW_ROWS else one_after_another
    done = run([*tasks, *taking.first_round()])
    second = taking.second_round()
    if second:
        run(second)
    arrays = taking.arrays()
    return _in_order(parted, arrays, done[: len(tasks)]) if separate else arrays


def _in_order(
    parted: list[tuple[list[str], list[str]]], arrays: list[Column], taken: list[list[Column]]
) -> list[Column]:
    """All columns, by their names and the names of those that were not in records."""
    kept, separate, columns = iter(arrays), iter(taken), list[Column]()
    for names, others in parted:
        found = dict(zip(others, next(separate), strict=True)) if others else {}
        columns += [found[name] if name in found else next(kept) for name in names]
    return columns


def have_same_texts(
    left: Payload, left_column: str, right: Payload, right_column: str, left_rows: Rows, right_rows: Rows
) -> Mask | None:
    """Whether pairs of rows, none of them missing, have the same text in two columns without NULLs there. None: the
    columns are not in records, or not yet."""
    places = left.text_place(left_column), right.text_place(right_column)
    if places[0] is None or places[1] is None:
        return None
    same = np.empty(len(left_rows), np.bool_)
    same_texts(left_rows, places[0], right_rows, places[1], same)
    return same
