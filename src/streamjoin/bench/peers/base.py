"""What every peer is: two windows, a join of each batch with the other window, and rows that can be compared."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from ...errors import ArgumentError
from ...side import SIDES, Side
from ..columns import Columns, Rows

KINDS = ("equality", "band", "celljoin")
NAMES: dict[Side, tuple[str, str]] = {"left": ("x", "y"), "right": ("a", "b")}
LARGE = 300_000
"""Windows of more tuples are kept and joined another way by some; between the two sizes that were measured."""


class Peer(ABC):
    """A join of two streams with count windows, fed with batches, which must not be changed afterwards."""

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

        Each batch enters its window, and the oldest tuples beyond the window's size leave it, once it was joined.
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

    def _checked(self, columns: Columns) -> Columns:
        if (given := (columns[0].dtype, columns[1].dtype)) != self._dtypes:
            raise ArgumentError(f"columns: {given[0]}, {given[1]} given, {self._dtypes[0]}, {self._dtypes[1]} needed")
        return columns

    def _last(self, columns: Columns) -> Columns:
        """As much of it as a window holds."""
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


def package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ArgumentError(f"{name} is not installed; `pip install 'streamjoin[dev]'` installs it") from None
