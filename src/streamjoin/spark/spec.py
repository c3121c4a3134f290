"""What every part of the pipeline knows of a join: made at the call, sent to the executors once."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import pyarrow as pa

from ..arrays import Integers
from ..engine.intake import Intake
from ..engine.options import Options
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..predicate.slots import SlotValues
from ..side import Side

Routing = Literal["broadcast", "hash", "range", "auto"]
"""Every tuple probes on all workers and is stored by one; tuples with equal keys meet on one worker; a worker has a
range of keys; or what the predicate allows."""
FORMAT = "2"
"""Of what is kept in the state store, hashes included: to be raised when any of it changes."""


@dataclass(frozen=True)
class JoinSpec:
    """`workers` share the windows; `bounded`: the inputs are tables that end, not streams."""

    lowered: Lowered
    schemas: dict[Side, pa.Schema]
    result: pa.Schema
    options: Options
    workers: tuple[int, ...]
    routing: str
    bounded: bool
    range_key: tuple[Side, RangeKey] | None = None
    """Where tuples are routed by ranges: whose numbers are the points, and the key."""
    on: str = ""
    """The predicate in words."""
    cache_directory: str | None = None
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def terms(self) -> dict[str, str]:
        """What a query must not change from one start to the next, since its state depends on it. The worker's numbers
        follow from those of workers and of shuffle partitions; the format is that of the state."""
        options = self.options
        return {
            "format": FORMAT,
            "on": self.on,
            "window": str(options.windows),
            "time": str(options.time),
            "lateness": str(options.lateness),
            **{side: str(schema.remove_metadata()) for side, schema in self.schemas.items()},
            "routing": self.routing,
            "partitions": f"{len(self.workers)} workers {self.workers}",
        }

    @property
    def keeps_late(self) -> bool:
        return self.options.late == "keep"

    @cached_property
    def intake(self) -> Intake:
        return Intake(self.lowered, self.schemas, self.options.time)

    def times(self, side: Side, table: pa.Table) -> Integers:
        """A table's timestamps in the common unit."""
        times = self.intake.times(side, table, f"the {side} stream")
        assert times is not None
        return times

    def slots(self, side: Side, table: pa.Table) -> SlotValues:
        """What the predicate reads of a table's rows."""
        return self.intake.slots(side, table, f"the {side} stream")
