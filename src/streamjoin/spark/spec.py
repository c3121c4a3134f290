"""The description of a join that every part of the pipeline has: made at the call, sent to the executors once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import pyarrow as pa

from ..arrays import Integers
from ..engine.intake import Intake
from ..engine.options import Options
from ..flow.progress import Progress
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..predicate.slots import SlotValues
from ..side import Side

Routing = Literal["broadcast", "hash", "range", "auto"]
"""broadcast: every tuple probes on all workers, and one stores it. hash: tuples with equal keys meet on one worker.
range: each worker has a range of keys. auto: the one that suits the predicate."""
FORMAT = "2"
"""The format of the state store's content, including which worker a hash chooses. Raise it when any of it changes."""


@dataclass(frozen=True)
class JoinSpec:
    """`workers` are the numbers of the workers that share the windows. `bounded`: the inputs are tables, which end."""

    lowered: Lowered
    schemas: dict[Side, pa.Schema]
    result: pa.Schema
    options: Options
    workers: tuple[int, ...]
    routing: str
    bounded: bool
    range_key: tuple[Side, RangeKey] | None = None
    """For routing by ranges: the side that has the points, and the key."""
    on: str = ""
    """The predicate as text."""
    cache_directory: str | None = None
    lateness_declared: bool = True
    """Whether the call gave the lateness, or the inputs' watermarks did."""
    idle_timeout: int | None = None
    """In ticks (see `flow.progress`). The state does not depend on it, so a query may go on with another one."""
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def terms(self) -> dict[str, str]:
        """What a query must not change from one start to the next, because its state depends on it.

        The numbers of the workers depend on how many workers and how many shuffle partitions there are.
        """
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

    def progress(self, furthest: Mapping[Side, int | None]) -> Progress:
        """How far the streams have come, from their furthest timestamps."""
        progress = Progress(self.options.lateness, self.idle_timeout)
        progress.furthest = dict(furthest)
        return progress

    def times(self, side: Side, table: pa.Table) -> Integers:
        """A table's timestamps in the common unit."""
        times = self.intake.times(side, table, f"the {side} stream")
        assert times is not None
        return times.ticks

    def slots(self, side: Side, table: pa.Table, *, are_checked: bool = False) -> SlotValues:
        """What the predicate reads of a table's rows. `are_checked`: they have been read before, when they arrived."""
        return self.intake.slots(side, table, f"the {side} stream", are_checked=are_checked)
