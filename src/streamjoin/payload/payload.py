"""The columns of a stream's rows, by row number, for as long as they can still be part of a result.

Rows are appended in arrival order and keep their number for ever. Numbers, moments and texts are copied once into
records, row by row (`records`). Columns of other types stay in the Arrow batches they came in (`kept_batches`).
Compiled code takes the records apart again, in parallel (`taking`, `gather`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..arrays import Mask, Rows
from ..arrow.tables import restored, takeable
from ..tasks import RunAll, one_after_another
from .gather import SEGMENT_BITS
from .kept_batches import KeptBatches
from .records import Records, check_lengths
from .same_texts import TextPlace, same_texts
from .taking import Column, Layout, Pieces, Taking

FEW_ROWS = 1 << 15
"""So few results are gathered before another thread would be awake."""


class Selection(NamedTuple):
    """Some columns, those of them that are in records, how they lie there, and the others."""

    names: list[str]
    kept: list[str]
    layout: Layout
    others: list[str]


class Payload:
    """Rows [first, end) of a stream. `run_all` runs the tasks of a gathering, in parallel or one after another.

    Until machine code `is_ready`, rows stay in the tables they came in, and Arrow takes them from there.
    """

    def __init__(self, schema: pa.Schema, run_all: RunAll, is_ready: Callable[[], bool] = lambda: True) -> None:
        self.schema, self._names = schema, schema.names
        self._run_all, self._is_ready = run_all, is_ready
        self._records = Records(schema)
        self._others = KeptBatches(pa.schema([field for field in schema if field.name not in self._records.columns]))
        self._selections: dict[tuple[str, ...], Selection] = {}
        self._all = self._selection(self._names)
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
        if not self._unsettled or not self._is_ready():
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
            while len(self._unsettled) > 1 and self._unsettled[1][0] <= floor:
                self._unsettled.pop(0)
            self.first = max(self.first, self._unsettled[0][0])
            return
        self.first = max(self.first, self.end if floor >= self.end else floor >> SEGMENT_BITS << SEGMENT_BITS)
        self._records.release(self.first >> SEGMENT_BITS)
        self._others.release(floor)

    def take(self, rows: Rows, columns: list[str] | None = None) -> pa.Table:
        """The given rows, in the given order; row number -1 gives NULLs."""
        names = self._names if columns is None else columns
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_arrays(self.arrays(rows, names), schema=schema)

    def arrays(self, rows: Rows, columns: list[str] | None = None) -> list[Column]:
        """The same, column by column."""
        return gathered([self.gathering([rows], columns)], self._run_all)

    def gathering(self, pieces: Sequence[Rows], columns: list[str] | None = None) -> Gathering:
        """The same for rows in several arrays, to be done by `gathered`."""
        self.settle()
        names, rows = self._names if columns is None else columns, Pieces(pieces)
        if self._unsettled:
            wanted = Selection(names, [], Layout([]), names)
            taking = self._records.taking(rows, wanted.layout, self.first, self.end)
            return Gathering(wanted, taking, lambda: self._from_tables(rows.whole, names))
        wanted = self._all if columns is None else self._selection(names)
        taking = self._records.taking(rows, wanted.layout, self.first, self.end)
        return Gathering(wanted, taking, lambda: self._take_others(rows.whole, wanted.others))

    def text_place(self, name: str) -> TextPlace | None:
        """Where the texts of a column lie, for `same_texts`; None if they are not in records (yet)."""
        self.settle()
        return None if self._unsettled else self._records.text_place(name)

    def _selection(self, names: list[str]) -> Selection:
        key = tuple(names)
        if key not in self._selections:
            columns = self._records.columns
            kept, others = [name for name in key if name in columns], [name for name in key if name not in columns]
            self._selections[key] = Selection(names, kept, self._records.layout(kept), others)
        return self._selections[key]

    def _take_others(self, rows: Rows, names: list[str]) -> list[Column]:
        if ((rows >= 0) & (rows < self.first)).any():
            raise IndexError(f"rows below {self.first} have been released")
        columns: list[Column] = self._others.take(rows, names).columns
        return columns

    def _from_tables(self, rows: Rows, names: list[str]) -> list[Column]:
        """Columns of rows that have not been copied into records."""
        base = self._unsettled[0][0]
        table = takeable(pa.concat_tables(table.select(names) for _, table in self._unsettled))
        absent = rows < 0
        places = pa.array(rows - base, mask=absent) if absent.any() else pa.array(rows - base)
        schema = pa.schema([self.schema.field(name) for name in names])
        return list(restored(table.take(places), schema).columns)


class Gathering:
    """Columns of some rows of one side: `taking` has those of the records, `take` gets the others from Arrow tables."""

    __slots__ = ("_others", "_take", "_wanted", "taking")

    def __init__(self, wanted: Selection, taking: Taking, take: Callable[[], list[Column]]) -> None:
        self._wanted, self.taking, self._take = wanted, taking, take

    def has_others(self) -> bool:
        return bool(self._wanted.others)

    def take_others(self) -> None:
        self._others = self._take()

    def columns(self) -> list[Column]:
        """All columns, when those of the records have been gathered and the others taken."""
        arrays = self.taking.arrays()
        if not self._wanted.others:
            return arrays
        found = dict(zip((*self._wanted.kept, *self._wanted.others), (*arrays, *self._others), strict=True))
        return [found[name] for name in self._wanted.names]


def gathered(gatherings: Sequence[Gathering], run_all: RunAll) -> list[Column]:
    """The columns of one side, or of both sides of the same results. Their tasks share the workers, so no side waits
    for the other."""
    sides = [gathering.taking for gathering in gatherings]
    run = run_all if sides[0].count > FEW_ROWS else one_after_another
    others = [gathering.take_others for gathering in gatherings if gathering.has_others()]
    run([*others, *[task for side in sides for task in side.first_round()]])
    second = [task for side in sides for task in side.second_round()]
    if second:
        run(second)
    return [column for gathering in gatherings for column in gathering.columns()]


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
