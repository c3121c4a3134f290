"""As-of joins: of each left row's partners, the one that is closest in time (`match`).

Law: rows take part in the merged order, so a left row's position, which every worker computes alike, is its identity,
and the right rows' positions break ties. A worker keeps the closest partner that it has found for each open left row,
its *candidate*, with all columns. When the row's window closes, its home asks and every worker tells its candidate.
The closest of these is the row's partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from ..arrays import INT64_MAX, Array, Integers, Rows, Words
from ..side import SIDES, Side
from .identity import positions_as_identities
from .marks import Marks
from .questions import Questions, named, words_of
from .sealed_values import SealedState
from .segments import COORDINATE
from .side_segments import ARRIVED, SideSegments
from .spec import JoinSpec
from .worker_state import SideState

TIME, PLACE, DISTANCE = "__streamjoin_time", "__streamjoin_place", "__streamjoin_distance"
"""Columns of a candidate beside the right stream's own, and the coordinate of the left row: the partner's time and
position, and its distance from the left row in time."""

MOST_FOUND = 1 << 16
"""Candidates of a micro-batch that are kept without a look at which are the closest."""


class Candidates:
    """The candidates of one worker in one micro-batch, and those that it keeps."""

    def __init__(self, spec: JoinSpec, state: SealedState, kept: SideState, questions: Questions) -> None:
        self._spec, self._kept, self._questions = spec, kept, questions
        self._marks = Marks("left", state, kept, closest)
        self._found: list[pa.Table] = []
        self._rows, self._most = 0, MOST_FOUND
        """How many are found, and so many that they are gone through for the closest ones."""
        self.unmatched = 0
        """How many rows this worker has reported without a partner."""

    def offer(self, stored: Mapping[Side, SideSegments], left: Integers, right: Integers) -> None:
        """Take some pairs of rows into account."""
        if (
            len(left) and left[0] < ARRIVED
        ):  # right rows probe: in the merged order a left row's first younger partner is the closest
            first = stored["left"].first_met(left)
            left, right = left[first], right[first]
        (place, time), (partner, partner_time) = stored["left"].whereabouts(left), stored["right"].whereabouts(right)
        fits = partner_time <= (time if self._spec.options.match == "latest" else INT64_MAX)
        keys = place, _distance(time, partner_time), partner_time, partner
        chosen = np.flatnonzero(fits)[_closest([key[fits] for key in keys])]
        table = stored["right"].take(right[chosen], self._spec.schemas["right"].names)
        for name, key in zip((COORDINATE, DISTANCE, TIME, PLACE), keys, strict=True):
            table = table.append_column(name, pa.array(key[chosen]))
        self._found.append(table)
        self._rows += table.num_rows
        if self._rows > self._most:
            self._found = [closest(pa.concat_tables(self._found))]
            self._rows = self._found[0].num_rows
            self._most = max(2 * self._rows, MOST_FOUND)

    def close(self, stored: SideSegments, floor: int | None) -> Iterator[pa.Table]:
        """Report the left rows below the floor with their partners, or ask and tell about them."""
        spec, kept = self._spec, self._kept
        floor = kept.floor if floor is None else max(floor, kept.floor)
        told = self._marks.close(kept.floor, floor)
        if self._found:
            told.append(self._marks.add(closest(pa.concat_tables(self._found)), floor))
        told = [named(table, positions_as_identities(table.column(COORDINATE).to_numpy())) for table in told]
        asked = []
        for rows in stored.closing(floor):
            table = rows.table.filter(pa.array(rows.home))
            asked.append(named(table, positions_as_identities(rows.coordinate[rows.home])))
        kept.floor = floor
        if spec.settles("left"):
            for table in asked:
                self._questions.ask("left", table)
            for table in told:
                self._questions.tell("left", table)
            return
        for table, unmatched in with_closest(spec, asked, told):
            self.unmatched += unmatched
            yield table


def with_closest(spec: JoinSpec, asked: Sequence[pa.Table], told: Sequence[pa.Table]) -> Iterator[tuple[pa.Table, int]]:
    """Left rows with the closest of the candidates, or without one; and how many rows of a table have none."""
    candidates = closest(pa.concat_tables(told)) if told else None
    known = np.empty(0, np.int64) if candidates is None else candidates.column(COORDINATE).to_numpy()
    left_names, right_names = (spec.schemas[side].names for side in SIDES)
    for table in asked:
        position = words_of(table)[1]
        at = np.searchsorted(known, position)
        met = np.zeros(len(position), np.bool_)
        inside = at < len(known)
        met[inside] = known[at[inside]] == position[inside]
        rows = table.select(left_names)
        if candidates is not None:
            partners = candidates.select(right_names).take(pa.array(at[met]))
            columns = [*rows.filter(pa.array(met)).columns, *partners.columns]
            yield pa.Table.from_arrays(columns, schema=spec.result), 0
        if spec.options.how == "left":
            alone = spec.alone("left", rows.filter(pa.array(~met)))
            yield alone, alone.num_rows


def closest(candidates: pa.Table) -> pa.Table:
    """The closest candidate of each left row, in the order of the left rows."""
    keys = [candidates.column(name).to_numpy() for name in (COORDINATE, DISTANCE, TIME, PLACE)]
    return candidates.take(pa.array(_closest(keys)))


def _closest(keys: Sequence[Array]) -> Rows:
    """Which candidates are closest to their left rows; in a tie the earlier one, then the last one in order."""
    left, distance, time, place = keys
    order = np.lexsort((-place, time, distance, left))
    return order[np.flatnonzero(np.diff(left[order], prepend=-1))]


def _distance(times: Integers, others: Integers) -> Words:
    """Differences of any two times fit into 64 bits without a sign."""
    one, other = times.view(np.uint64), others.view(np.uint64)
    return np.where(times >= others, one - other, other - one)
