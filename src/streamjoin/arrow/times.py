"""Time columns as whole numbers of ticks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import INT64_MAX, INT64_MIN, Integers
from ..compile.generic import extremes
from ..errors import ArgumentError, DataError
from ..side import Side
from ..window import NANOSECONDS_PER_TICK, TimeUnit, time_unit
from .tables import raw_values


def read_time(column: pa.Array, unit: str, where: str) -> Integers:
    """A time column as int64 ticks of `unit`; DataError for NULLs and for what does not fit."""
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise DataError(f"{where} is NULL in row {row} of the batch; a tuple without a timestamp belongs to no window")
    own = time_unit(column.type)
    if pa.types.is_uint64(column.type):
        ticks = np.asarray(column)
        if len(ticks) and int(ticks.max()) >= INT64_MAX:
            raise DataError(f"{where} holds {int(ticks.max())}; the largest valid value is 2**63 - 2")
        return ticks.astype(np.int64)
    integers = column.type.to_pandas_dtype() if own == "int" else np.int32 if own == "day" else np.int64
    ticks = raw_values(column, integers).astype(np.int64, copy=False)
    earliest, latest = extremes(ticks)
    if len(ticks) and (earliest == INT64_MIN or latest == INT64_MAX):
        raise DataError(f"{where} holds the first or the last number of 64 bits, and no window can reach beyond it")
    if own == unit or own == "int" or unit == "int":
        return ticks
    factor = NANOSECONDS_PER_TICK[own] // NANOSECONDS_PER_TICK[unit]  # type: ignore[index]
    edge = INT64_MAX // factor
    if len(ticks) and (latest > edge or earliest < -edge):
        raise DataError(f"{where} holds a timestamp that does not fit into 64 bits of {unit}")
    return ticks * np.int64(factor)


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
                f"time: the {side} stream has no column {name!r}; it has: {', '.join(schema.names) or 'none'}"
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
