"""Settle: which of the rows that workers ask about have met a partner (see `questions`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Mask
from ..side import SIDES
from .closest import with_closest
from .messages import from_bytes, to_view
from .outputs import ARROW_OUTPUT, RESULT, blobs
from .process import spare_collector
from .questions import ASKED, TOLD, words_of
from .spec import JoinSpec


class Settle:
    """Turns questions into results; a function for `DataFrame.mapInArrow` from the workers' output to the same.

    All that is asked and told about a row must be in the same partition.
    """

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_collector()
        waiting: dict[str, list[pa.Table]] = {kind: [] for kind in (*ASKED.values(), *TOLD.values())}
        for batch in batches:
            for row, kind in enumerate(batch.column("kind").to_pylist()):
                if kind in waiting:
                    waiting[kind].append(from_bytes(batch.column("body")[row].as_buffer()))
                else:
                    yield batch.slice(row, 1)
        for table, unmatched in self.settled(waiting):
            for blob in blobs(table):
                yield _output(blob, min(unmatched, blob.num_rows))

    def settled(self, waiting: Mapping[str, Sequence[pa.Table]]) -> Iterator[tuple[pa.Table, int]]:
        """The results; all or none of a table's rows have no partner, and their number comes with it. `waiting` has
        what was asked and told, by the kind of output."""
        spec = self._spec
        if spec.options.match != "all":
            yield from with_closest(spec, waiting[ASKED["left"]], waiting[TOLD["left"]])
            return
        semi = spec.options.how == "semi"
        for side in SIDES:
            told = [words_of(table) for table in waiting[TOLD[side]]]
            met = np.concatenate([np.empty((2, 0), np.int64), *told], axis=1)
            asked = waiting[ASKED[side]]
            words = [words_of(table) for table in asked]
            has_met = _among(np.concatenate([np.empty((2, 0), np.int64), *words], axis=1), met)
            for table, start in zip(asked, np.cumsum([0, *(table.num_rows for table in asked)]), strict=False):
                chosen = has_met[start : start + table.num_rows]
                rows = np.flatnonzero(chosen if semi else ~chosen)
                alone = spec.alone(side, table.select(spec.schemas[side].names).take(pa.array(rows)))
                yield alone, 0 if semi else alone.num_rows


def _output(table: pa.Table, unmatched: int) -> pa.RecordBatch:
    values = {"kind": RESULT, "body": to_view(table), "out": table.num_rows, "unmatched": unmatched}
    arrays = [pa.array([values.get(field.name)], field.type) for field in ARROW_OUTPUT]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_OUTPUT)


def _among(words: Integers, known: Integers) -> Mask:
    """Which identities are among the known ones."""
    both = np.concatenate([known, words], axis=1)
    is_new = np.arange(both.shape[1]) >= known.shape[1]
    order = np.lexsort((is_new, both[1], both[0]))
    both = both[:, order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.any(both[:, 1:] != both[:, :-1], axis=0)
    # Of equal identities a known one comes first, if there is any.
    found = np.empty(len(order), np.bool_)
    found[order] = ~is_new[order][begins][np.cumsum(begins) - 1]
    return found[known.shape[1] :]
