"""Searches: what some batches ask of some windows, found together by the threads of a crew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..parallel.crew import Crew
from ..store import PairSink, Probing, SideWindow
from ..store.batch import Decide
from ..store.pair_slots import PairSlots
from ..tasks import Job
from .protocol import Pairs


@dataclass(slots=True, eq=False)
class Question:
    """A batch that probes a window, in about so many parts. `weight` is its share of all comparisons, as far as that is
    known before; `compared` is how many there were, once all is found."""

    window: SideWindow
    probing: Probing
    left_probes: bool
    parts: int
    weight: int
    compared: int = 0


class Search:
    """Invariant: each pair that a question asks for is given once, and a bounded number of pairs at a time. When nobody
    takes them, the work stands still."""

    def __init__(self, crew: Crew, decide: Decide) -> None:
        self._crew, self._decide = crew, decide
        self._slots = PairSlots(crew.workers, decide)

    def found(
        self, questions: Sequence[Question], workers: int, by_stored: bool = False, by_tasks: bool = False
    ) -> Iterator[Pairs]:  # fmt: skip
        """The pairs, found by so many workers. `by_stored`: parts share stored tuples. `by_tasks`: nothing is done on
        the board."""
        jobs: list[Job] = []
        tasks: list[_Task] = []
        begun: list[_Task] = []
        """What devices do meanwhile."""
        for question in questions:
            window, probing = question.window, question.probing
            sink = self.sink(question.left_probes)
            if by_tasks:
                tasks.append(_Task(question, window.probe(probing, sink), sink, self._crew))
                continue
            on_device = window.begun(probing, sink)
            if on_device is not None:
                begun.append(_Task(question, on_device, sink, self._crew))
                continue
            found, alone, groups = window.jobs(probing, question.parts, question.left_probes, by_stored)
            jobs += found
            if alone or groups:
                for share in probing.split(workers):
                    sink = self.sink(question.left_probes)
                    beside = window.probe_beside_jobs(alone, groups, share, sink)
                    tasks.append(_Task(question, beside, sink, self._crew))
        if jobs:
            self._slots.make_ready()
            for _ in self._crew.rounds(jobs, self._slots.words, workers):
                yield from self._slots.take()
            _share_out(self._slots.compared(), questions)
        for task in begun:
            while not task.done:
                yield task.run()
                task.count()
        while tasks:
            pairs = self._crew.run([task.run for task in tasks])
            for task in tasks:
                task.count()
            yield from pairs
            tasks = [task for task in tasks if not task.done]

    def sink(self, left_probes: bool) -> PairSink:
        return PairSink(self._decide, left_probes=left_probes)

    def release(self) -> None:
        """Let memory go that holds no pairs any more."""
        self._slots.release()


def _share_out(compared: int, questions: Sequence[Question]) -> None:
    """Threads count comparisons together, whatever they were for. Where all is scanned, the shares are exact."""
    weight, before, so_far = max(sum(question.weight for question in questions), 1), 0, 0
    for question in questions:
        so_far += question.weight
        share, before = compared * so_far // weight - before, compared * so_far // weight
        question.compared += share
        question.window.note_probed(question.probing.count, share)


class _Task:
    """A share of a search that is not compiled. It may run on any thread of the crew."""

    def __init__(self, question: Question, steps: Iterator[int], sink: PairSink, crew: Crew) -> None:
        self.question, self._steps, self._sink, self._crew = question, steps, sink, crew
        self.compared = 0
        self.done = False

    def count(self) -> None:
        """Its question has the comparisons so far."""
        self.question.compared += self.compared
        self.compared = 0

    def run(self) -> Pairs:
        """Go on until all pairs are found, or as many as the sink keeps at once."""
        for compared in self._steps:
            self.compared += compared
            if self._sink.is_full:
                break
            self._crew.checkpoint()
        else:
            self.done = True
        return self._sink.take()
