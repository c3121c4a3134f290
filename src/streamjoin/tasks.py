"""Running several tasks: what does it is handed in, so that lower rooms need not know about threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

RunAll = Callable[[Sequence[Callable[[], Any]]], list[Any]]
"""Runs all tasks, in any order or at the same time, and returns their results in the order of the tasks. Those that are
a `Job` are shared out part by part."""


class Job:
    """A compiled function that is called for each of its parts, on whatever thread (`compile.entries`).

    `block` has what the parts share: numbers, and addresses of memory that `keeps` holds.
    """

    __slots__ = ("block", "entry", "keeps", "parts")

    def __init__(self, entry: Any, block: Any, parts: int, keeps: Any = None) -> None:
        self.entry, self.block, self.parts, self.keeps = entry, block, parts, keeps

    def __call__(self) -> None:
        """All parts one after another, on this thread. Only for jobs whose parts need no slot."""
        block = self.block.ctypes.data
        for part in range(self.parts):
            while self.entry(block, part, 0) == MORE:
                pass


DONE, MORE, FULL = 1, 2, 3
"""What an entry returns: see `compile.entries`."""
SLOT_WORDS = 32
"""Integers of a worker's slot. The first is 1 + the part that has filled it and is not done; the rest is the jobs'."""

Walk = Iterator[Sequence[Callable[[], Any]]]
"""Work in several stages: each gives tasks, which must be done before the next one begins."""


def one_after_another(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """The `RunAll` that needs no threads."""
    return [task() for task in tasks]


def together(walks: Sequence[Walk], run_all: RunAll) -> None:
    """Several walks at once: the tasks of a stage of all of them are run together."""
    going = list(walks)
    while going:
        stages = [(walk, tasks) for walk in going if (tasks := next(walk, None)) is not None]
        tasks = [task for _, own in stages for task in own]
        if tasks:
            run_all(tasks)
        going = [walk for walk, _ in stages]


def do_all(walks: Sequence[Callable[[], Walk]]) -> None:
    """Begin each walk and do its tasks, on this thread."""
    for begin in walks:
        for tasks in begin():
            for task in tasks:
                task()
