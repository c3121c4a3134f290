"""What a join reads of arriving rows: the slots of the predicate, and timestamps.

The embedded engine and Spark read through this one module, so the same rows mean the same to both. Their merged order
follows from the timestamps, in `flow.order`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ..arrow.fields import Readable, readable
from ..arrow.tables import contiguous, is_text
from ..arrow.times import TimeColumns, TimeReader, Times
from ..errors import DataError
from ..predicate.expr import Column, walk
from ..predicate.lower import Lowered
from ..predicate.slots import SlotValues
from ..predicate.vector import Frame
from ..side import SIDES, Side
from ..window import TimeUnit


class Intake:
    """Reads tables that have their side's schema. `where` begins the message of an error: the call or the stream."""

    def __init__(self, lowered: Lowered, schemas: Mapping[Side, pa.Schema], time: TimeColumns | None) -> None:
        self._programs = lowered.sides
        rechecked = [
            node for expr in (*lowered.recheck, *lowered.recheck_long_text)
            for node in walk(expr) if isinstance(node, Column)
        ]  # fmt: skip
        known = {side: readable(schemas[side]) for side in SIDES}
        self._places: dict[Side, list[tuple[tuple[Side, str], Readable]]] = {
            side: [((side, name), known[side][name]) for name in self._programs[side].columns] for side in SIDES
        }
        """Where in its table each column or field lies that the slots read: numbers are quicker than names."""
        self._time: dict[Side, tuple[str, int, TimeReader]] | None = None
        if time is not None:
            self._time = {side: _time_column(schemas[side], time.of(side), time.unit) for side in SIDES}
        self._texts: dict[Side, list[Readable]] = {}
        """The text columns that the predicate reads. Arrow does not promise that their bytes are valid text."""
        for side in SIDES:
            read = {*self._programs[side].columns, *(node.name for node in rechecked if node.side == side)}
            self._texts[side] = [known[side][name] for name in sorted(read) if is_text(known[side][name].type)]

    def times(
        self, side: Side, table: pa.Table, where: str, arrays: Sequence[pa.Array] | None = None
    ) -> Times | None:  # fmt: skip
        """The timestamps in the unit that both streams share; None without a time column. `arrays` are the columns of
        the table, if each is one array."""
        if self._time is None:
            return None
        name, place, reader = self._time[side]
        column = contiguous(table.column(place)) if arrays is None else arrays[place]
        return reader.read(column, f"{where}: time column {name!r}")

    def slots(
        self,
        side: Side,
        table: pa.Table,
        where: str,
        arrays: Sequence[pa.Array] | None = None,
        *,
        are_checked: bool = False,
    ) -> SlotValues:
        """What the predicate reads of the rows. `are_checked`: their texts were found valid when they arrived."""
        program, columns = self._programs[side], {}
        for key, wanted in self._places[side]:
            place = wanted.place
            columns[key] = wanted.of(contiguous(table.column(place)) if arrays is None else arrays[place])
        try:
            if not are_checked:
                for text in self._texts[side]:
                    text.of(table.column(text.place)).validate(full=True)
            return program.run(Frame(table.num_rows, columns))
        except (DataError, UnicodeDecodeError, pa.ArrowException) as error:
            names = ", ".join(program.columns)
            raise DataError(f"{where}: the predicate's columns ({names}) cannot be read: {error}") from None


def _time_column(schema: pa.Schema, name: str, unit: TimeUnit) -> tuple[str, int, TimeReader]:
    place = schema.names.index(name)
    return name, place, TimeReader(schema.field(place).type, unit)
