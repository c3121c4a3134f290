"""Rows without a timestamp: `null_time="drop"` leaves them out before anything else sees them, and counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import functions as F

from ..side import Side
from .spec import JoinSpec

ROWS = "rows"


def figure_name(name: str, side: Side) -> str:
    """The name under which the query's progress has the number, for the join whose figures are called `name`."""
    return f"{name}_{side}_null_time"


def with_times(spec: JoinSpec, side: Side, frame: Any, name: str) -> Any:
    """The rows of a side that take part, where others may be left out. The frame's columns are numbered."""
    options = spec.options
    if options.null_time == "error":
        return frame
    assert options.time is not None
    time = F.col(frame.columns[spec.schemas[side].names.index(options.time.of(side))])
    counted = frame.observe(figure_name(name, side), F.count_if(time.isNull()).alias(ROWS))
    return counted.where(time.isNotNull())


def null_times(observed: Mapping[str, Mapping[str, Any]], name: str, side: Side) -> int:
    """The number in the figures of a micro-batch; 0 where none are left out."""
    found = observed.get(figure_name(name, side))
    return 0 if found is None else int(found[ROWS] or 0)
