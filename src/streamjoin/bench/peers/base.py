"""What every peer has: two windows, a join of each batch with the other window, and rows that can be compared."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ...errors import ArgumentError
from ...side import SIDES, Side
from ..columns import Columns, Rows

KINDS = ("equality", "band", "celljoin")
NAMES: dict[Side, tuple[str, str]] = {"left": ("x", "y"), "right": ("a", "b")}
RESULT_NAMES = [*NAMES["left"], *NAMES["right"]]
LARGE = 300_000
"""Some peers store and join larger windows in another way; the limit lies between the two measured sizes."""


class Peer(ABC):
    """A join of two streams with count windows. Batches must not be changed after they were passed in."""

    name: ClassVar[str]

    def __init__(self, window: int, kind: str, width: int = 0) -> None:
        if kind not in KINDS:
            raise ArgumentError(f"kind: {kind!r} is none of {', '.join(KINDS)}")
        if window < 1 or width < 0:
            raise ArgumentError(f"window: {window}, width: {width}; at least one tuple, and no negative width")
        self.window, self.kind, self.width = window, kind, 0 if kind == "equality" else width
        self._dtypes = np.dtype(np.int32), np.dtype(np.float32 if kind == "celljoin" else np.int32)
        self._results: list[Any] = []

    def fill(self, left: Columns, right: Columns) -> None:
        """Append to both windows without joining."""
        for side, columns in zip(SIDES, (left, right), strict=True):
            self._append(side, self._last(columns))

    def step(self, left: Columns, right: Columns) -> int:
        """How many pairs the left batch has with the right window, and then the right batch with the left window.

        A batch is joined first. Then it enters its window, and the oldest tuples beyond the window's size leave.
        """
        self._results = []
        for side, columns in zip(SIDES, (left, right), strict=True):
            self._results.append(self._join(side, self._checked(columns)))
            self._append(side, self._last(columns))
        return sum(map(self._count, self._results))

    def rows(self) -> tuple[Rows, Rows]:
        """The rows that the last step found for the left batch and for the right batch."""
        left, right = map(self._rows, self._results)
        return left, right

    def table(self) -> pa.Table:
        """The rows that the last step found, as one Arrow table. Its chunks are the results as they lie in memory."""
        return pa.concat_tables(map(self._as_table, self._results))

    def _checked(self, columns: Columns) -> Columns:
        if (given := (columns[0].dtype, columns[1].dtype)) != self._dtypes:
            raise ArgumentError(f"columns: {given[0]}, {given[1]} given, {self._dtypes[0]}, {self._dtypes[1]} needed")
        return columns

    def _last(self, columns: Columns) -> Columns:
        """The last rows, as many as a window holds."""
        first, second = self._checked(columns)
        return first[-self.window :], second[-self.window :]

    @abstractmethod
    def _join(self, side: Side, batch: Columns) -> Any:
        """The result rows, materialised, of a batch of `side` with the window of the other side."""

    @abstractmethod
    def _append(self, side: Side, batch: Columns) -> None: ...

    @abstractmethod
    def _count(self, result: Any) -> int: ...

    @abstractmethod
    def _rows(self, result: Any) -> Rows: ...

    @abstractmethod
    def _as_table(self, result: Any) -> pa.Table: ...


def package(name: str) -> Any:
    """Import an optional package; ArgumentError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ArgumentError(f"{name} is not installed; `pip install 'streamjoin[dev]'` installs it") from None
