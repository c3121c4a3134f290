"""The Polars peers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ...side import SIDES, Side, other
from ..columns import Columns, Rows
from .base import LARGE, NAMES, RESULT_NAMES, Peer, package
from .bins import Bins


class Polars(Peer):
    """Data frames as windows; `join` for equality, else `join_where`. All cores."""

    name = "Polars"  # 17 and 5.8 (equality), 2.1 and 0.4 (band)
    _binned: ClassVar[bool] = False

    def __init__(self, window: int, kind: str, width: int = 0) -> None:
        super().__init__(window, kind, width)
        # Bin size / band: band 7.2 and 4.3 (1x), 10.0 and 3.9 (2x); celljoin 4.8 and 2.3 (1x), 5.6 and 1.9 (2x)
        self._bins = Bins(kind, self.width, 1 if window > LARGE else 2) if self._binned else None
        self._polars = pl = package("polars")
        # Streaming: band 10.0 and 3.7, in memory 6.7 and 4.3; celljoin faster, equality slower when streaming
        streaming = kind == "celljoin" or (kind == "band" and window <= LARGE)
        self._engine = "streaming" if streaming else "in-memory"
        nothing = np.empty(0, self._dtypes[0]), np.empty(0, self._dtypes[1])
        self._windows = {side: self._frame(side, nothing) for side in SIDES}
        self._appended = dict.fromkeys(SIDES, 0)
        x, y, a, b = map(pl.col, ("x", "y", "a", "b"))
        real = pl.lit(float(self.width), pl.Float32)
        self._conditions = [x >= a - self.width, x <= a + self.width]
        if kind == "celljoin":
            self._conditions += [y >= b - real, y <= b + real]

    def _frame(self, side: Side, batch: Columns) -> Any:
        columns = dict(zip(NAMES[side], batch, strict=True))
        if self._bins is not None:
            columns["bin"] = self._bins.stored(batch)
        return self._polars.DataFrame(columns)

    def _append(self, side: Side, batch: Columns) -> None:
        window = self._polars.concat([self._windows[side], self._frame(side, batch)], rechunk=False).tail(self.window)
        self._appended[side] += 1
        # Every 4th time: 6.5; always: 5.6 (equality, 1M)
        self._windows[side] = window.rechunk() if self._appended[side] % 4 == 1 else window

    def _join(self, side: Side, batch: Columns) -> Any:
        pl, window = self._polars, self._windows[other(side)].lazy()
        if self._bins is not None:
            names = (*NAMES[side], "bin")
            frame = pl.DataFrame(dict(zip(names, self._bins.probing(batch), strict=True))).lazy()
            query = frame.join(window, on="bin").filter(*self._conditions)
        else:
            frame = pl.DataFrame(dict(zip(NAMES[side], batch, strict=True))).lazy()
            if self.kind == "equality":
                mine, theirs = NAMES[side][0], NAMES[other(side)][0]
                query = frame.join(window, left_on=mine, right_on=theirs, coalesce=False)
            else:
                query = frame.join_where(window, *self._conditions)
        return query.select("x", "y", "a", "b").collect(engine=self._engine)

    def _count(self, result: Any) -> int:
        return int(result.height)

    def _rows(self, result: Any) -> Rows:
        x, y, a, b = (result[name].to_numpy() for name in RESULT_NAMES)
        return x, y, a, b

    def _as_table(self, result: Any) -> pa.Table:
        return result.select(RESULT_NAMES).to_arrow()


class PolarsBinned(Polars):
    """Windows have a column of bins. The batch has a copy of each tuple per bin, and is joined on equal bins."""

    name = "Polars, binned"  # 10.0 and 4.3 (band), 5.6 and 2.3 (celljoin)
    _binned = True
