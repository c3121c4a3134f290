"""Event time through the join: the watermarks that the inputs carry, and the time of the result.

Spark marks a column as the one that a watermark is on, and keeps one watermark for the whole query: the lowest of all
inputs'. The operators of the join neither heed it nor change it. *The result's time, the later of both timestamps, is
never behind it, unless the row that came last was late already by the watermark of its own stream.* The timestamps of a
single stream are behind it, by up to a window. So where both inputs carry a watermark, the result has a column for its
time, which carries on with it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..arguments import unused
from ..arrow.times import TimeColumns
from ..errors import ArgumentError
from ..side import SIDES, Side
from ..window import NANOSECONDS_PER_TICK, TimeWindow
from .spec import JoinSpec
from .unpack import LATE

DELAY = "spark.watermarkDelayMs"
"""The key under which Spark notes, at a column, the delay of its watermark in milliseconds."""
RESULT_TIME = "result_time"
"""The name of the result's time where the call gives none."""


def delays(frames: dict[Side, Any], time: TimeColumns) -> dict[Side, int]:
    """The delays of the watermarks on the time columns, in milliseconds; no entry for a stream without one."""
    found = {side: frames[side].schema[time.of(side)].metadata.get(DELAY) for side in SIDES}
    return {side: delay for side, delay in found.items() if delay is not None}


def usual_lateness(delay_of: dict[Side, int]) -> timedelta | int:
    """The lateness if the call gives none: the longest delay, less a tick, for Spark calls a row late that is exactly
    the delay behind; nothing without a watermark."""
    longest = timedelta(milliseconds=max(delay_of.values(), default=0))
    return max(longest - timedelta(microseconds=1), timedelta(0)) if longest else 0


@dataclass(frozen=True, slots=True)
class ResultTime:
    """A column of the result that has its time. `delay`: how far its rows may be behind, in milliseconds, if it carries
    the inputs' watermark; else None."""

    name: str
    delay: int | None

    @classmethod
    def of(cls, spec: JoinSpec, frames: dict[Side, Any], name: Any) -> ResultTime | None:
        """What the call asks for, and what the inputs' watermarks need."""
        assert spec.options.time is not None
        delay_of = delays(frames, spec.options.time)
        # Rows without a partner come when their windows close: they would be behind the watermark.
        carries = len(delay_of) == len(SIDES) and spec.options.how == "inner" and spec.options.match == "all"
        if carries and spec.options.needs_order and spec.options.lateness >= _ticks(min(delay_of.values()), spec):
            # Results that wait for longer than the watermark does would be behind it, too.
            carries = False
            warnings.warn(
                "lateness: with count windows, results wait for the lateness, which is not below the delay of both "
                "inputs' watermarks; so the result carries no watermark: give both the same delay, and no lateness",
                stacklevel=3,
            )
        taken = {column.lower() for column in [*spec.result.names, *([LATE] if spec.keeps_late else [])]}
        if name is None:
            if not carries:
                return None
            name = unused(RESULT_TIME, taken)
        elif not isinstance(name, str) or not name:
            raise ArgumentError(
                f"result_time: {name!r} is not valid; give a name for the column with the result's time"
            )
        elif name.lower() in taken:
            raise ArgumentError(f"result_time: the result already has a column {name!r}; give another name")
        return cls(name, _furthest_back(spec) if carries else None)

    def added_to(self, joined: Any, spec: JoinSpec) -> Any:
        value = _result_time(spec)
        if spec.keeps_late:
            value = F.when(F.col(LATE).isNull(), value)
        metadata = {} if self.delay is None else {"metadata": {DELAY: self.delay}}
        return joined.select("*", value.alias(self.name, **metadata))


def _result_time(spec: JoinSpec) -> Column:
    """The later of both timestamps; of an unmatched row, its own; with `match`, the left row's."""
    time = spec.options.time
    assert time is not None
    left, names = len(spec.schemas["left"]), spec.result.names
    columns = [time.left, *names[left:][spec.schemas["right"].names.index(time.right) :][:1]]
    if spec.options.match != "all":
        del columns[1:]
    values = [F.col(f"`{name.replace('`', '``')}`") for name in columns]
    return F.greatest(*values) if len(values) > 1 else values[0]


def _ticks(milliseconds: int, spec: JoinSpec) -> int:
    assert spec.options.time is not None
    assert spec.options.time.unit != "int"
    return milliseconds * 1_000_000 // NANOSECONDS_PER_TICK[spec.options.time.unit]


def _furthest_back(spec: JoinSpec) -> int:
    """How many milliseconds a result's time may be behind that of earlier results, and one more: the lateness, and
    in time windows the longer one, by which one stream may be ahead."""
    options = spec.options
    assert options.time is not None
    lengths = [window.amount for window in options.windows.values() if isinstance(window, TimeWindow)]
    ticks = options.lateness + (0 if options.needs_order else max(lengths))
    assert options.time.unit != "int"
    return ticks * NANOSECONDS_PER_TICK[options.time.unit] // 1_000_000 + 1
