"""Time columns as whole numbers of ticks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..arguments import meant
from ..arrays import INT64_MAX, INT64_MIN, Integers
from ..compile.generic import survey
from ..errors import ArgumentError, DataError
from ..side import Side
from ..window import NANOSECONDS_PER_TICK, TimeUnit, time_unit
from .tables import raw_values, restored, takeable


class Times(NamedTuple):
    """Timestamps in the order of arrival, and what is asked of all of them. Of none, the earliest is INT64_MAX and the
    latest INT64_MIN."""

    ticks: Integers
    earliest: int
    latest: int
    is_ascending: bool

    @classmethod
    def of(cls, ticks: Integers) -> Times:
        return cls(ticks, *survey(ticks))


class TimeReader:
    """Reads time columns of one type as ticks of a unit; DataError for NULLs and for what does not fit."""

    def __init__(self, type_: pa.DataType, unit: TimeUnit) -> None:
        own = time_unit(type_)
        self._unit = unit
        self._dtype: Any = type_.to_pandas_dtype() if own == "int" else np.int32 if own == "day" else np.int64
        self._factor = 1
        if own not in (unit, "int") and unit != "int":
            self._factor = NANOSECONDS_PER_TICK[own] // NANOSECONDS_PER_TICK[unit]

    def read(self, column: pa.Array, where: str) -> Times:
        """The times of a column; `where` begins the message of an error."""
        if column.null_count:
            row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise DataError(
                f"{where} is NULL in row {row} of the batch; a tuple without a timestamp belongs to no window; "
                'leave such rows out, as a join does with null_time="drop"'
            )
        raw = raw_values(column, self._dtype)
        if self._dtype is np.uint64 and len(raw) and int(raw.max()) >= INT64_MAX:
            raise DataError(f"{where} holds {int(raw.max())}; the largest valid value is 2**63 - 2")
        # A copy even of int64: Numba takes longer to call, and compiles anew, for arrays that are read-only as Arrow's.
        times = Times.of(raw.astype(np.int64))
        if len(raw) and (times.earliest == INT64_MIN or times.latest == INT64_MAX):
            raise DataError(f"{where} holds the first or the last number of 64 bits, and no window can reach beyond it")
        if self._factor == 1:
            return times
        edge = INT64_MAX // self._factor
        if len(raw) and (times.latest > edge or times.earliest < -edge):
            raise DataError(f"{where} holds a timestamp that does not fit into 64 bits of {self._unit}")
        return Times.of(times.ticks * np.int64(self._factor))


def rows_with_time(table: pa.Table, column: int | str) -> pa.Table:
    """The rows whose timestamp is not NULL: those that `null_time="drop"` leaves."""
    times = table.column(column)
    if not times.null_count:
        return table
    return restored(takeable(table).filter(times.is_valid()), table.schema)


def read_time(column: pa.Array, unit: TimeUnit, where: str) -> Integers:
    """A time column as int64 ticks of `unit` (see `TimeReader`)."""
    return TimeReader(column.type, unit).read(column, where).ticks


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """The time column of each side and the unit that both are counted in."""

    left: str
    right: str
    unit: TimeUnit

    def of(self, side: Side) -> str:
        return self.left if side == "left" else self.right


def time_columns(left: pa.Schema, right: pa.Schema, time: Any) -> TimeColumns | None:
    if time is None:
        return None
    names = (time, time) if isinstance(time, str) else tuple(time) if isinstance(time, (tuple, list)) else ()
    if len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"time: {time!r} is not valid; give the time column's name, or a pair (left's, right's)")
    units: list[TimeUnit] = []
    for side, schema, name in (("left", left, names[0]), ("right", right, names[1])):
        if name not in schema.names:
            raise ArgumentError(
                f"time: the {side} stream has no column {name!r}{meant(name, schema.names)}; "
                f"it has: {', '.join(schema.names) or 'none'}"
            )
        units.append(time_unit(schema.field(name).type, "time", name))
    if units[0] == units[1]:
        unit = units[0]
    elif "int" in units:
        raise ArgumentError(
            f"time: {names[0]!r} is {left.field(names[0]).type} and {names[1]!r} is {right.field(names[1]).type}; "
            "both must be integers, or both dates or timestamps"
        )
    else:
        unit = min(units, key=NANOSECONDS_PER_TICK.__getitem__)
    zones = [getattr(schema.field(name).type, "tz", None) for schema, name in ((left, names[0]), (right, names[1]))]
    if (zones[0] is None) != (zones[1] is None):
        raise ArgumentError(
            f"time: one of {names[0]!r} and {names[1]!r} has a time zone and the other has none; give both one"
        )
    return TimeColumns(names[0], names[1], unit)
