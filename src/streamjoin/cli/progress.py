"""How far a join of files has come, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .files.reading import Input


class Progress:
    """Shows nothing."""

    def read(self) -> None:
        """Some rows of an input have been read."""

    def joining(self) -> None:
        """What fits into memory has been read."""

    def found(self, rows: int) -> None:
        """There are more results."""


class Bar(Progress):
    """A bar of the bytes read, with the results so far."""

    def __init__(self, bar: Any, inputs: Sequence[Input]) -> None:
        sizes = [data.size for data in inputs]
        self._total = None if None in sizes else sum(size or 0 for size in sizes)
        self._bar, self._inputs, self._found = bar, inputs, 0
        self._task = bar.add_task("reading", total=self._total, found="")

    def read(self) -> None:
        self._bar.update(self._task, completed=sum(data.done for data in self._inputs))

    def joining(self) -> None:
        done = sum(data.done for data in self._inputs)
        if done == self._total:  # a bar that is full says nothing: one that moves takes its place
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task("joining", total=None, found="")
        else:
            self._bar.update(self._task, description="joining")

    def found(self, rows: int) -> None:
        self._found += rows
        self._bar.update(self._task, found=f"{self._found:,} results")
        self.read()


@contextmanager
def progress(inputs: Sequence[Input]) -> Iterator[Progress]:
    """A bar on standard error if that is a terminal; it goes away at the end."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = ("{task.description}", BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[found]}"))
    with RichProgress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        yield Bar(bar, inputs)
