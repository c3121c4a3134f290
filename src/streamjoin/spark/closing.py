"""Rows of one side that a worker stores, or has marks of, in the micro-batch in which their windows close.

Law: windows close below a floor, which is the same on all workers. Each row closes once, in the micro-batch in which
the floor passes it, or in its first one if it comes behind the floor.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..arrays import Integers
from ..side import Side
from ..store import Batch
from .identity import identities
from .marks import Marks
from .questions import Questions, named
from .sealed_values import SealedState
from .segments import COORDINATE
from .side_segments import ARRIVED, SideSegments
from .spec import JoinSpec
from .worker_state import SideState


class Closing:
    """`unmatched` counts the rows that this worker has reported without a partner."""

    def __init__(self, spec: JoinSpec, side: Side, state: SealedState, kept: SideState, questions: Questions) -> None:
        self._spec, self._side, self._kept, self._questions = spec, side, kept, questions
        self._marks = Marks(side, state, kept)
        self.unmatched = 0

    def close(self, stored: SideSegments, probed: Batch, floor: int | None) -> Iterator[pa.Table]:
        """Report rows below the floor that have no partner, and ask or tell about those that this worker cannot settle
        alone; of a semi join, report rows that have got a partner. `probed` are the rows that have probed in this
        micro-batch. Without a floor, no window closes."""
        spec, side, kept = self._spec, self._side, self._kept
        floor = kept.floor if floor is None else max(floor, kept.floor)
        away = stored.unite()
        if spec.settles(side):
            self._tell_of_others(stored, probed.take(np.flatnonzero(away[probed.row - ARRIVED])), floor)
        if spec.options.how == "semi":
            for table in stored.newly_met():
                yield spec.alone(side, table)
        for rows in stored.closing(floor):
            unmet = rows.home & ~rows.met
            table, coordinate = rows.table.filter(pa.array(unmet)), rows.coordinate[unmet]
            if spec.settles(side):
                self._questions.ask(side, named(table, identities(spec, side, table, coordinate)))
                elsewhere = rows.met & ~rows.home
                self._questions.tell(
                    side, self._marked(rows.table.filter(pa.array(elsewhere)), rows.coordinate[elsewhere])
                )
            elif spec.options.how != "semi":
                self.unmatched += table.num_rows
                yield spec.alone(side, table)
        kept.floor = floor

    def _tell_of_others(self, stored: SideSegments, away: Batch, floor: int) -> None:
        """Tell of closing rows that have met a partner here and are stored elsewhere; keep marks of open ones. `away`
        are those of this micro-batch."""
        marked = self._marked(stored.take_arrived(away.row), away.coordinate)
        for marks in (*self._marks.close(self._kept.floor, floor), self._marks.add(marked, floor)):
            self._questions.tell(self._side, marks)

    def _marked(self, table: pa.Table, coordinate: Integers) -> pa.Table:
        """Marks that rows have met a partner here."""
        identity = identities(self._spec, self._side, table, coordinate)
        return named(pa.table({COORDINATE: coordinate}), identity)
