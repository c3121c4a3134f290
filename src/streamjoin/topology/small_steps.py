"""Small steps: a few tuples against windows whose path is known, or more that reach few of a scanned window.

Such a step computes little. Most of its time would go into questions: what is known of keys, which path is the best,
how to share the work. So the answers of an ordinary step serve some small ones that follow.

Law: a small step stores and finds what an ordinary one would. It is possible while each window that it touches has a
way for few tuples (`SideWindow.few`). What small steps pass over is made up for by the next ordinary one: it looks at
the keys and sizes of its own batches, and counts the tuples that have probed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..side import SIDES, Side, other
from ..store import Batch, PairSink, SideWindow
from ..store.batch import Decide
from ..store.few import Few, FewSearched
from ..store.few_scan import MOST_TUPLES, FewScans, rehearse
from ..store.subwindow import FEW_PROBES
from .protocol import Floors, Pairs

IN_A_ROW = 64
"""After so many small steps an ordinary one follows."""


class SmallSteps:
    """Takes small steps over two shared windows."""

    def __init__(self, windows: Mapping[Side, SideWindow], decide: Decide) -> None:
        self._windows = windows
        self._sinks = {side: PairSink(decide, left_probes=side == "left") for side in SIDES}
        self._scans = FewScans(decide)
        self._in_a_row = 0
        self._pause = 0
        """Steps of more than a few tuples that are ordinary ones, since one of them had too much to compare."""
        self._probes = dict.fromkeys(SIDES, 0)
        """Tuples of each side that have probed in them."""
        self._compared = 0

    @property
    def comparisons(self) -> int:
        return self._compared + self._scans.comparisons

    def rehearse(self) -> None:
        """Compile what small steps call, and ordinary ones do not."""
        rehearse(window.stored for window in self._windows.values())

    def step(self, batches: Mapping[Side, Batch], floors: Floors) -> Iterator[Pairs] | None:
        """Take a small step; None: it must be an ordinary one."""
        found = self._begun(batches, floors) if self._in_a_row < IN_A_ROW else None
        if found is None:
            if self._in_a_row < IN_A_ROW:
                self._scans.forget()
            self._in_a_row = 0
            for side, probes in self._probes.items():
                self._windows[other(side)].passed_over(probes)
                self._probes[side] = 0
        else:
            self._in_a_row += 1
            for side, batch in batches.items():
                self._probes[side] += len(batch.row)
        return found

    def release(self) -> None:
        """Let all memory go: no step will follow."""
        self._scans.release()

    def _begun(self, batches: Mapping[Side, Batch], floors: Floors) -> Iterator[Pairs] | None:
        most = max([len(batch.row) for batch in batches.values()], default=0)
        if most > FEW_PROBES and (most > MOST_TUPLES or self._is_pausing()):
            return None
        places: dict[Side, Few] = {}
        for side, window in self._windows.items():
            place = window.few(batches.get(side), floors.get(side), batches.get(other(side)))
            if place is None:
                return None
            places[side] = place
        searched = {side: place for side, place in places.items() if isinstance(place, FewSearched)}
        if most > FEW_PROBES and searched:
            return None
        left, right = places["left"].scanned, places["right"].scanned
        if left is not None and right is not None:
            found = self._scans.step({"left": left, "right": right}, batches, floors, searched)
            if found is not None:
                for side, place in searched.items():
                    if side in batches:
                        place.newest.insert(batches[side])
                return found
            if self._scans.has_too_many:
                self._pause = IN_A_ROW
            for place in searched.values():
                place.refuse()
        return self._piece_by_piece(places, batches) if most <= FEW_PROBES else None

    def _is_pausing(self) -> bool:
        self._pause = max(self._pause - 1, 0)
        return self._pause > 0

    def _piece_by_piece(self, places: Mapping[Side, Few], batches: Mapping[Side, Batch]) -> Iterator[Pairs]:
        for side, batch in batches.items():
            places[side].newest.insert(batch)
        for side, batch in batches.items():
            yield from self._drained(side, places[other(side)].probe_few(batch, self._sinks[side]))

    def _drained(self, side: Side, found: Iterator[int]) -> Iterator[Pairs]:
        """The pairs that are found for one side's tuples."""
        sink = self._sinks[side]
        for compared in found:
            self._compared += compared
            if sink.is_full:
                yield sink.take()
        if sink.count:
            yield sink.take()
