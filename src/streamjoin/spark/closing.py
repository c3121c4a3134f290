"""Rows of one side that a worker stores, or has marks of, in the micro-batch in which their windows close.

Law: windows close below a floor, which is the same on all workers. Each row closes once, in the micro-batch in which
the floor passes it, or in its first one if it comes behind the floor.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..side import Side
from ..store import Batch
from .identity import identities
from .keyed_state import KeyedState
from .marks import Marks
from .questions import Questions
from .side_segments import ARRIVED, SideSegments
from .spec import JoinSpec
from .worker_state import SideState


class Closing:
    """`unmatched` counts the rows that this worker has reported without a partner."""

    def __init__(self, spec: JoinSpec, side: Side, state: KeyedState, kept: SideState, questions: Questions) -> None:
        self._spec, self._side, self._kept, self._questions = spec, side, kept, questions
        self._marks = Marks(side, state, kept)
        self.unmatched = 0

    def close(self, stored: SideSegments, probed: Batch, floor: int | None) -> Iterator[pa.Table]:
        """Report rows below the floor, and ask or tell about those that this worker cannot settle alone. `probed` are
        the rows that have probed in this micro-batch. Without a floor, nothing more can be said than before."""
        spec, side, kept = self._spec, self._side, self._kept
        floor = kept.floor if floor is None else max(floor, kept.floor)
        away = stored.unite()
        if spec.settles:
            self._tell_of_others(stored, probed.take(np.flatnonzero(away[probed.row - ARRIVED])), floor)
        is_semi = spec.options.how == "semi"
        for rows in stored.closing(floor):
            met, unmet = rows.home & rows.met, rows.home & ~rows.met
            if is_semi or not spec.settles:
                alone = rows.table.filter(pa.array(met if is_semi else unmet))
                self.unmatched += 0 if is_semi else alone.num_rows
                yield spec.alone(side, alone)
            if spec.settles:
                self._questions.ask(side, rows.table.filter(pa.array(unmet)), rows.coordinate[unmet])
                elsewhere = rows.met & ~rows.home
                table = rows.table.filter(pa.array(elsewhere))
                self._questions.tell(side, identities(spec, side, table, rows.coordinate[elsewhere]))
        kept.floor = floor

    def _tell_of_others(self, stored: SideSegments, away: Batch, floor: int) -> None:
        """Tell of closing rows that have met a partner here and are stored elsewhere; keep marks of open ones. `away`
        are those of this micro-batch."""
        words = identities(self._spec, self._side, stored.take_arrived(away.row), away.coordinate)
        is_open = away.coordinate >= floor
        closed = self._marks.close(self._kept.floor, floor)
        self._questions.tell(self._side, np.concatenate([closed[1:], words[:, ~is_open]], axis=1))
        self._marks.add(np.concatenate([away.coordinate[None], words])[:, is_open])
