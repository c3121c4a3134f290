"""Time columns as whole numbers of ticks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrow import raw_values
from .errors import DataError
from .predicate.cache import compiled
from .window import NANOSECONDS_PER_TICK, time_unit

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@compiled
def ends(ticks):  # type: ignore[no-untyped-def]
    """The earliest and the latest; of none, the other way round."""
    earliest, latest = INT64_MAX, INT64_MIN
    for tick in ticks:
        earliest, latest = min(earliest, tick), max(latest, tick)
    return earliest, latest


def read_time(column: pa.Array, unit: str, where: str) -> npt.NDArray[np.int64]:
    """A time column as int64 ticks of `unit`; DataError for NULLs and for what does not fit."""
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise DataError(f"{where} is NULL in row {row} of the batch; a tuple without a timestamp belongs to no window")
    own = time_unit(column.type)
    if pa.types.is_uint64(column.type):
        ticks = np.asarray(column)
        if len(ticks) and int(ticks.max()) >= INT64_MAX:
            raise DataError(f"{where} holds {int(ticks.max())}; the largest that will do is 2**63 - 2")
        return ticks.astype(np.int64)
    integers = column.type.to_pandas_dtype() if own == "int" else np.int32 if own == "day" else np.int64
    ticks = raw_values(column, integers).astype(np.int64, copy=False)
    earliest, latest = ends(ticks)
    if len(ticks) and (earliest == INT64_MIN or latest == INT64_MAX):
        raise DataError(f"{where} holds the first or the last number of 64 bits, which no window can reach beyond")
    if own == unit or own == "int" or unit == "int":
        return ticks
    factor = NANOSECONDS_PER_TICK[own] // NANOSECONDS_PER_TICK[unit]  # type: ignore[index]
    edge = INT64_MAX // factor
    if len(ticks) and (latest > edge or earliest < -edge):
        raise DataError(f"{where} holds a timestamp that does not fit into 64 bits of {unit}")
    return ticks * np.int64(factor)
