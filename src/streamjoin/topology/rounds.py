"""Rounds: what nodes have asked of their windows is done by a crew, for all nodes at once.

Each comparison of a block with a window is cut into parts that any thread may take (`parallel.board`). So all threads
are busy however many nodes there are and however evenly they share the windows, and a round has three stages at most.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ..compile.background import is_rehearsing
from ..parallel.crew import Crew
from ..store.batch import Decide
from ..tasks import Walk, together
from .node_window import StoredWindow, Waiting
from .pace import Pace
from .protocol import Pairs
from .search import Question, Search

PARTS = 8
"""Parts of a round for each thread."""
MOST_INSERTED, MOST_ASKED = 1 << 20, 1 << 12
"""A round is due after so many tuples that wait to be stored, and so many blocks that wait to be compared."""
USUAL_SECONDS = 1e-10
"""What a comparison takes until some have been seen."""
SHARED_TUPLES = 1 << 12
"""From so many tuples on, several threads share what is stored in a window."""


class Rounds:
    """Invariant: after a round the windows are as if each of the nodes' calls had been done when it was made."""

    def __init__(self, crew: Crew, decide: Decide, nodes: int) -> None:
        self._crew = crew
        self._search = Search(crew, decide)
        self._pace = Pace(crew.workers)
        self._seconds = USUAL_SECONDS
        """What a comparison took one thread in the last round."""
        self._number, self._helped = 0, 0.0
        """How many rounds there were, and the seconds that other threads than the caller's worked in the last one."""
        self.waiting = Waiting()
        self.busy = [0.0] * nodes
        """Seconds that threads have worked for each node."""

    def is_due(self) -> bool:
        """Whether so much waits that it takes much memory."""
        return self.waiting.inserted >= MOST_INSERTED or self.waiting.asked >= MOST_ASKED

    def run(self) -> Iterator[Pairs]:
        """Do what waits; gives pairs as they are found."""
        if not self.waiting.windows:
            return
        self._number += 1
        seconds, self._helped, started = 0.0, 0.0, time.perf_counter()
        windows = self.waiting.windows
        self._store(windows)
        asked = [(window, question) for window in windows for question in window.questions()]
        self.waiting.clear()
        if asked:
            for pairs in self._found([question for _, question in asked]):
                seconds += time.perf_counter() - started
                yield pairs
                started = time.perf_counter()
        for window in windows:
            window.settle()
        seconds += time.perf_counter() - started + self._helped
        weight = max(sum(question.weight for _, question in asked), 1)
        for window, question in asked:
            window.comparisons += question.compared
            self.busy[window.number] += seconds * question.weight / weight

    def _store(self, windows: Sequence[StoredWindow]) -> None:
        is_large = self.waiting.inserted >= SHARED_TUPLES and self._crew.workers > 1
        walks: list[Walk] = []
        for window in windows:
            window.window.share_among(2 if is_large else 1)
            walks += window.storing()
        together(walks, self._crew.run)
        deferred = [job for window in windows for job in window.window.take_deferred()]
        if deferred:
            self._crew.run(deferred)

    def _found(self, questions: Sequence[Question]) -> Iterator[Pairs]:
        weight = max(sum(question.weight for question in questions), 1)
        tuples = sum(question.probing.count for question in questions)
        workers = self._pace.workers(tuples, weight * self._seconds)
        if is_rehearsing():  # on the board, on this thread, and without jobs
            workers = self._crew.workers if self._number % 3 == 0 else 1
        seconds, started, helped = 0.0, time.perf_counter(), self._crew.helped if workers > 1 else 0.0
        if workers > 1:
            for question in questions:
                question.parts = max(PARTS * workers * question.weight // weight, 1)
        indexed = [question for question in questions if not question.window.is_scanned]
        if indexed:
            for question in indexed:
                question.window.expect(question.probing.batch)
            indexes = dict.fromkeys(question.window for question in indexed)
            together([window.preparing() for window in indexes], self._crew.run)
            together([question.window.computing_ahead(question.probing, 1) for question in indexed], self._crew.run)
        by_tasks = is_rehearsing() and self._number % 3 == 1
        for pairs in self._search.found(questions, workers, by_tasks=by_tasks):
            seconds += time.perf_counter() - started
            yield pairs
            started = time.perf_counter()
        seconds += time.perf_counter() - started
        self._pace.note(tuples, workers, seconds)
        if workers > 1:
            self._helped = self._crew.helped - helped
        self._seconds = (seconds + self._helped) / weight

    def release(self) -> None:
        """Let memory go that holds no pairs any more."""
        self.waiting.clear()
        self._search.release()
