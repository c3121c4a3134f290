"""As-of joins of whole tables: each left row walks back in time to its closest partner (see `store.walk_back`).

So no pairs are found but those that are reported. The result is that of the running join; where a walk is not the way
to it, there is none. The nearest partner is the latest one, or the first of the younger ones. Those lie in a mirror, in
which time runs backwards, and there the first one is the latest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..arrays import Array, Mask, Rows
from ..arrow.fields import taken
from ..arrow.tables import conform, restored, result_schema, takeable
from ..arrow.times import Times, rows_with_time
from ..flow.order import reach
from ..predicate.lower import Lowered
from ..predicate.recheck import Recheck
from ..predicate.slots import SlotValues
from ..side import SIDES, Side
from ..store.walk_back import MOST_STORED, NONE, Sorted, WalkBack, from_late_to_early
from ..window import TimeWindow
from .intake import Intake
from .options import Options
from .planning import Planned
from .rehearsal import Schemas, made_up, rehearsed

MADE_UP = 3
"""Rows of each table of a rehearsal."""


def join_as_of(left: pa.Table, right: pa.Table, plan: Planned, suffix: str) -> pa.Table | None:
    """The whole result, in time order. None: the running join must find it. That is where order decides which pairs
    there are, where compiled conditions cannot decide, or where most left rows would walk far."""
    options, lowered = plan.options, plan.lowered
    by_time = all(isinstance(window, TimeWindow) for window in options.windows.values())
    if not by_time or lowered.recheck or options.order == "punctuated" or not 0 < right.num_rows <= MOST_STORED:
        return None
    tables: dict[Side, pa.Table] = {"left": left, "right": right}
    if options.null_time == "drop" and options.time is not None:
        tables = {side: rows_with_time(table, options.time.of(side)) for side, table in tables.items()}
        if not tables["right"].num_rows:
            return None
    tables = {side: conform(table, table.schema, side) for side, table in tables.items()}
    schemas = {side: table.schema for side, table in tables.items()}
    result = result_schema(left.schema, right.schema, options.how, suffix)
    is_compiled = rehearsed(options, lowered, schemas, rehearse)()
    return _Walk(options, lowered, tables, result).result(is_compiled)


def rehearse(options: Options, lowered: Lowered, schemas: Schemas) -> None:
    """The same on made-up rows, and a walk whether or not these pass their filters."""
    tables = {side: made_up(schemas[side], MADE_UP, np.random.default_rng(0), False) for side in SIDES}
    result = pa.schema(list(schemas["left"]) + list(schemas["right"]))
    walk = _Walk(options, lowered, tables, result)
    walk.result(True)
    places = np.arange(MADE_UP)
    left, right = (Sorted(places, [np.zeros(MADE_UP, slot.dtype) for slot in lowered.slots[side]]) for side in SIDES)
    walk.closest(left, right, True)


class _Live(NamedTuple):
    """The rows that can have a partner, in time order."""

    tuples: Sorted
    rows: Rows | None
    """Where they lie in their table; None: it has no others, and they lie as they are."""

    @classmethod
    def of(cls, times: Times, slots: SlotValues) -> _Live:
        rows = _in_order(times)
        if slots.live is not None:
            rows = np.flatnonzero(slots.live) if rows is None else rows[slots.live[rows]]
        if rows is None:
            return cls(Sorted(times.ticks, slots.columns), None)
        return cls(Sorted(times.ticks[rows], [column[rows] for column in slots.columns]), rows)

    def row_numbers(self, places: Rows) -> Rows:
        return places if self.rows is None else self.rows[places]


class _Walk:
    """One as-of join of two tables."""

    def __init__(
        self, options: Options, lowered: Lowered, tables: Mapping[Side, pa.Table], result: pa.Schema
    ) -> None:  # fmt: skip
        self._options, self._lowered, self._tables, self._schema = options, lowered, tables, result
        self._walk = WalkBack(lowered, "right")
        self._sizes = {
            side: window.amount for side, window in options.windows.items() if isinstance(window, TimeWindow)
        }  # fmt: skip

    def result(self, is_compiled: bool) -> pa.Table | None:
        """See `join_as_of`."""
        intake = Intake(self._lowered, {side: table.schema for side, table in self._tables.items()}, self._options.time)
        live: dict[Side, _Live] = {}
        long_text, times = True, dict[Side, Times]()
        for side, table in self._tables.items():
            read = intake.times(side, table, side)
            assert read is not None
            slots = intake.slots(side, table, side)
            live[side], times[side] = _Live.of(read, slots), read
            long_text &= slots.long_text
        places = self.closest(live["left"].tuples, live["right"].tuples, is_compiled)
        if places is None:
            return None
        found = np.flatnonzero(places != NONE)
        left, right = live["left"].row_numbers(found), live["right"].row_numbers(places[found])
        if long_text and not self._are_confirmed(left, right):
            return None
        partner = np.full(self._tables["left"].num_rows, NONE)
        partner[left] = right
        return self._gathered(times["left"], partner)

    def closest(self, left: Sorted, right: Sorted, is_compiled: bool) -> Array | None:
        """The place of each left tuple's closest partner, or NONE."""
        window = reach(left.coordinate, 1 - self._sizes["right"], 1)
        past = self._walk.last_partners(right, left, *window, is_compiled)
        if past is None or self._options.match == "latest" or not len(right.coordinate):
            return past
        order = from_late_to_early(right.coordinate)
        mirrored = Sorted(-right.coordinate[order], [slot[order] for slot in right.slots])
        probing = Sorted(-left.coordinate[::-1], [np.ascontiguousarray(slot[::-1]) for slot in left.slots])
        window = reach(probing.coordinate, 1 - self._sizes["left"], 0)
        found = self._walk.last_partners(mirrored, probing, *window, is_compiled)
        if found is None:
            return None
        future = np.where(found == NONE, NONE, order[found])[::-1]
        behind, ahead = left.coordinate - right.coordinate[past], right.coordinate[future] - left.coordinate
        is_closer = (future != NONE) & ((past == NONE) | (ahead < behind))
        return np.where(is_closer, future, past)

    def _are_confirmed(self, left: Rows, right: Rows) -> bool:
        """Whether all partners are partners. Slots hold long texts as hashes. If one of the partners is none, its left
        row might have another one."""

        def columns(side: Side, rows: Rows, names: list[str]) -> pa.Table:
            table = self._tables[side]
            return taken(
                lambda rows, names: takeable(table.select(names)).take(pa.array(rows)), table.schema, rows, names
            )

        recheck = Recheck(self._lowered, columns)
        recheck.long_text = dict.fromkeys(SIDES, True)
        confirmed: Mask | None = recheck(left, right)
        return confirmed is None or bool(confirmed.all())

    def _gathered(self, times: Times, partner: Rows) -> pa.Table | None:
        """The left rows in time order, with their partners."""
        left, right = self._tables["left"], self._tables["right"]
        rows = _in_order(times)
        if self._options.how == "inner":
            rows = np.flatnonzero(partner != NONE) if rows is None else rows[partner[rows] != NONE]
        partner = partner if rows is None else partner[rows]
        try:
            found = left if rows is None else restored(takeable(left).take(pa.array(rows)), left.schema)
            partners = takeable(right).take(pa.array(partner, mask=partner == NONE))
            columns = [*found.columns, *restored(partners, right.schema).columns]
        except pa.ArrowException:  # such as texts that are too long for one array; the running join gives several
            return None
        return pa.Table.from_arrays(columns, schema=self._schema)


def _in_order(times: Times) -> Rows | None:
    """The rows in time order; None: as they are."""
    return None if times.is_ascending else np.argsort(times.ticks, kind="stable")
