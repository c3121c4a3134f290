"""The description of a join that every part of the pipeline has: made at the call, sent to the executors once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from ..arrays import Integers
from ..engine.intake import Intake
from ..engine.options import Options
from ..flow.progress import Progress
from ..predicate.expr import Column, walk
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..predicate.slots import SlotValues
from ..side import SIDES, Side

Routing = Literal["broadcast", "range", "blocks", "hash", "split", "auto"]
"""broadcast: every tuple probes on all workers, and one stores it. hash: tuples with equal keys meet on one worker.
split: the same, but on all workers where a key is frequent. range: each worker has a range of keys. blocks: each worker
has many short ranges of keys, all equally long. auto: the one that suits the predicate."""
FORMAT = "4"
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
    """For routing by ranges or blocks: the side that has the points, and the key."""
    block_size: float | None = None
    """For routing by blocks: how many numbers a block has, or how long it is if they are floats."""
    why: str = ""
    """Why this routing was chosen."""
    on: str = ""
    """The predicate as text, in its canonical form."""
    spellings: tuple[str, ...] = ()
    """Other texts by which a checkpoint may call the same predicate, with the same plan."""
    cache_directory: str | None = None
    lateness_declared: bool = True
    """Whether the call gave the lateness, or the inputs' watermarks did."""
    idle_timeout: int | None = None
    """In ticks (see `flow.progress`). The state does not depend on it, so a query may go on with another one."""
    ended: tuple[str, ...] = ()
    """The identities of other joins of this driver, whose caches are needed no more."""
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
            "how": options.how,
            "match": options.match,
            "window": str(options.windows),
            "time": str(options.time),
            "lateness": str(options.lateness),
            **{side: str(schema.remove_metadata()) for side, schema in self.schemas.items()},
            "routing": self.routing if self.block_size is None else f"{self.routing} of {self.block_size!r}",
            "partitions": f"{len(self.workers)} workers {self.workers}",
        }

    @property
    def has_routers(self) -> bool:
        """Whether routers find out where each row goes (see `router` and `key_router`)."""
        return self.routing == "range" or (self.routing == "split" and len(self.workers) > 1)

    @property
    def sends_all_to_all(self) -> bool:
        """Whether all workers get all rows; there may be only one."""
        return self.routing == "broadcast" or (self.routing == "split" and not self.has_routers)

    def has_roles(self, side: Side) -> bool:
        """Whether several workers may get a row of this side, each with a role (see `messages`)."""
        point = None if self.range_key is None else self.range_key[0]
        return self.has_routers or (self.routing == "blocks" and side != point)

    @property
    def keeps_late(self) -> bool:
        return self.options.late == "keep"

    @property
    def gives_pairs(self) -> bool:
        return self.options.how not in ("semi", "anti")

    def reports_alone(self, side: Side) -> bool:
        """Whether rows of a side are reported without a partner, or once for all their partners."""
        how = self.options.how
        if self.options.match != "all":
            return side == "left"
        return how in (side, "full") or (side == "left" and how in ("semi", "anti"))

    def settles(self, side: Side) -> bool:
        """Whether it takes several workers to say if a row of a side has met a partner, so that they `settle` it."""
        meets_on_several = self.routing == "broadcast" or self.has_roles(side)
        return self.reports_alone(side) and meets_on_several and len(self.workers) > 1

    @property
    def has_settling(self) -> bool:
        """Whether rows go from the workers to other tasks before they are unpacked."""
        return any(self.settles(side) for side in SIDES)

    def alone(self, side: Side, table: pa.Table) -> pa.Table:
        """Rows of one side as rows of the result, with NULL for all columns of the other side."""
        before = 0 if side == "left" else len(self.schemas["left"])
        columns: list[Any] = [pa.nulls(table.num_rows, field.type) for field in self.result]
        columns[before : before + table.num_columns] = table.columns
        return pa.Table.from_arrays(columns[: len(self.result)], schema=self.result)

    @cached_property
    def read(self) -> dict[Side, list[str]]:
        """The columns of both sides that the predicate reads."""
        rechecked = [
            node for expr in (*self.lowered.recheck, *self.lowered.recheck_long_text)
            for node in walk(expr) if isinstance(node, Column)
        ]  # fmt: skip
        return {
            side: sorted({*self.lowered.sides[side].columns, *(n.name for n in rechecked if n.side == side)})
            for side in SIDES
        }

    @cached_property
    def intake(self) -> Intake:
        return Intake(self.lowered, self.schemas, self.options.time)

    def reached(self, furthest: Mapping[Side, int | None]) -> dict[Side, int | None]:
        """How far the streams count as having come, which holds whatever `idle_timeout` a later start is given."""
        progress = self.progress(furthest)
        return {side: progress.reached(side) for side in SIDES}

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
