"""What algorithms have in common that keep each side's tuples in one window which all cores share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..compile.background import is_rehearsing
from ..side import SIDES, Side, other
from ..store import Batch, PairSink, Probing, SideWindow
from ..store.batch import lasting
from ..tasks import together
from .protocol import NO_FLOORS, Chores, Floors, Pairs, Setting, Unmet
from .search import Question, Search
from .small_steps import SmallSteps


class SharedWindows:
    """A base of topologies. A subclass adds `name` and `step`."""

    name: ClassVar[str]
    one_core: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    finds_late: ClassVar[bool] = False
    meets_once: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        self._windows: Mapping[Side, SideWindow] = {side: setting.make_window(side, "") for side in SIDES}
        self._decide, self._crew = setting.decide, setting.crew
        self._small = SmallSteps(self._windows, self._decide)
        self._search = Search(self._crew, self._decide)
        self.compared = 0
        """Pairs that ordinary steps have looked at."""

    @property
    def comparisons(self) -> int:
        return self.compared + self._small.comparisons

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        raise NotImplementedError

    def _small_step(self, batches: Mapping[Side, Batch], floors: Floors) -> Iterator[Pairs] | None:
        """Take a small step with batches that are not empty; None: this must be an ordinary one."""
        if is_rehearsing():
            self._small.rehearse()
            return None
        return self._small.step(batches, floors)

    def _take_in(self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors) -> None:
        """Insert all batches before any of them probes: each tuple's [low, high) already says whom it may meet."""
        together([chore() for chore in chores], self._crew.run)
        for side, batch in batches.items():
            stored = lasting(batch, floors.get(side), batches.get(other(side)))
            self._windows[side].insert(stored, floors.get(side))
        for side, batch in batches.items():
            self._windows[other(side)].expect(batch)

    def insert(self, side: Side, batch: Batch) -> None:
        """Take in tuples that have probed already."""
        self._windows[side].insert(batch)

    def probe(self, side: Side, batch: Batch) -> Iterator[Pairs]:
        """Find the pairs of tuples that have been taken in already, on this thread."""
        window = self._windows[other(side)]
        window.prepare()
        for part in window.shares(batch, workers=1):
            sink = self._sink(side)
            yield from self._taken_from(sink, window.probe(part, sink))

    def _probe_all(self, batches: Mapping[Side, Batch]) -> Iterator[Pairs]:
        """The same for several batches. Devices begin with all of them before any of them is waited for."""
        begun = {side: self._begun(side, batch) for side, batch in batches.items()}
        for side, batch in batches.items():
            for sink, found in begun[side]:
                yield from self._taken_from(sink, found)
            if not begun[side]:
                yield from self.probe(side, batch)

    def _begun(self, side: Side, batch: Batch) -> list[tuple[PairSink, Iterator[int]]]:
        """What finds the pairs of a batch on a device, where all of them are found there."""
        window, begun = self._windows[other(side)], []
        for part in window.parts(batch) if window.is_on_device and len(batch) else ():
            probing, sink = Probing(part), self._sink(side)
            found = window.begun(probing, sink) or window.probe(probing, sink)
            begun.append((sink, found))
        return begun

    def _taken_from(self, sink: PairSink, found: Iterator[int]) -> Iterator[Pairs]:
        for compared in found:
            self.compared += compared
            if sink.is_full:
                yield sink.take()
        yield sink.take()

    def visit(self, side: Side, batch: Batch) -> Iterator[Pairs]:
        """Find the pairs of tuples that are not taken in."""
        window = self._windows[other(side)]
        if window.count:
            window.expect(batch)
            yield from self.probe(side, batch)

    def _found(
        self, probings: list[tuple[Side, Probing]], parts: int, workers: int, by_stored: bool = False
    ) -> Iterator[Pairs]:  # fmt: skip
        """The pairs of some batches, whose probing is cut into so many parts each, found by so many workers."""
        questions = [
            Question(self._windows[other(side)], probing, side == "left", parts, len(probing.batch))
            for side, probing in probings
        ]
        for pairs in self._search.found(questions, workers, by_stored):
            self._count(questions)
            yield pairs
        self._count(questions)

    def _sink(self, probing: Side) -> PairSink:
        return self._search.sink(left_probes=probing == "left")

    def _count(self, questions: list[Question]) -> None:
        for question in questions:
            self.compared += question.compared
            question.compared = 0

    def finish(self) -> Iterator[Pairs]:
        yield from ()

    def unmet(self) -> list[Unmet]:
        return []

    def expire(self, side: Side, floor: int) -> None:
        self._windows[side].expire(floor)

    def occupancy(self, side: Side, floor: int | None = None) -> int:
        window = self._windows[side]
        return window.count if floor is None else window.at_least(floor)

    def first_row(self, side: Side) -> int | None:
        return self._windows[side].first_row

    def indexes(self) -> dict[Side, dict[str, Any]]:
        return {side: window.figures() for side, window in self._windows.items()}

    def workers(self, floors: Floors = NO_FLOORS) -> list[dict[str, Any]]:
        """The windows are shared: the first entry has the counts, each has the seconds that its thread was busy."""
        first, *others = self._crew.busy
        entries = [{"worker": 0, "busy_s": first, **self._shared_figures(floors)}]
        return entries + [{"worker": n, "busy_s": s} for n, s in enumerate(others, 1)]

    def _shared_figures(self, floors: Floors) -> dict[str, Any]:
        """Figures of the whole, whoever did the work."""
        return {
            "comparisons": self.comparisons,
            **{f"{side}_window": self.occupancy(side, floors.get(side)) for side in SIDES},
            "bytes": sum(window.nbytes for window in self._windows.values()),
        }

    def close(self) -> None:
        """Let the tuples go. There are no threads but the crew's, which belongs to the engine."""
        for window in self._windows.values():
            window.clear()
        self._small.release()
        self._search.release()
