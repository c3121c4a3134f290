"""What a worker cannot know alone of rows whose windows close, where a row may meet partners on several workers.

Law: in the micro-batch in which a row's window closes, the one worker that is its home *asks* about it, unless it knows
the answer; and every other worker where the row has met a partner *tells* so. Both name the row by its identity, which
also chooses the place where they meet (`settle`). All workers see windows close at the same floor. So the place needs
no memory: a row has met a partner iff its home knows, or somebody tells so when it is asked about. Where only the
closest partner counts (`closest`), the home asks in any case, and everybody tells of the closest one found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..arrays import Integers
from ..side import Side
from .identity import places_of
from .outputs import Output
from .spec import JoinSpec

ASKED: dict[Side, str] = {"left": "asked left", "right": "asked right"}
TOLD: dict[Side, str] = {"left": "told left", "right": "told right"}
"""Kinds of output: rows that somebody asks about, and what somebody tells of rows; both with identities."""
WORDS = "__streamjoin_first", "__streamjoin_second"
"""The columns of an identity."""


class Questions:
    """What one worker asks and tells in a micro-batch."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec
        self._said: dict[str, list[pa.Table]] = {}

    def ask(self, side: Side, table: pa.Table) -> None:
        """About rows that this worker answers for; the table also has their identities."""
        self._said.setdefault(ASKED[side], []).append(table)

    def tell(self, side: Side, table: pa.Table) -> None:
        """What is known here of rows; the table has their identities."""
        self._said.setdefault(TOLD[side], []).append(table)

    def outputs(self) -> Iterator[Output]:
        """All of it, each for the place of a worker."""
        workers = self._spec.workers
        for kind, tables in self._said.items():
            table = pa.concat_tables(tables).combine_chunks()
            places = places_of(words_of(table), len(workers))
            for place in np.unique(places):
                rows = np.flatnonzero(places == place)
                yield Output(workers[place], kind, table.take(pa.array(rows)))


def named(table: pa.Table, identity: Integers) -> pa.Table:
    """A table beside the identities of its rows."""
    for name, words in zip(WORDS, identity, strict=True):
        table = table.append_column(name, pa.array(words))
    return table


def words_of(table: pa.Table) -> Integers:
    """The identities in an output."""
    return np.stack([table.column(name).to_numpy() for name in WORDS])
