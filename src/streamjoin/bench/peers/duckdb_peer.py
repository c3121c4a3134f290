"""The DuckDB peers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ...side import SIDES, Side, other
from ..columns import Columns, Rows
from .base import LARGE, NAMES, RESULT_NAMES, Peer, package
from .bins import Bins

CHUNK = 32_768


class DuckDB(Peer):
    """The plain condition. Windows are Arrow tables or tables of the database; results are Arrow. All cores."""

    name = "DuckDB"  # 6.6 and 4.3 (equality), 1.3 and 0.3 (band)
    _binned: ClassVar[bool] = False

    def __init__(self, window: int, kind: str, width: int = 0) -> None:
        super().__init__(window, kind, width)
        # Bin size / band: band 4.4 and 2.8 (2x), 4.3 and 2.9 (3x); celljoin 2.9 and 1.3 (1x), 3.1 and 1.1 (2x)
        factor = 1 if kind == "celljoin" and window > LARGE else 2
        self._bins = Bins(kind, self.width, factor) if self._binned else None
        # Own tables: equality 3.7 and 4.3, band 2.3 and 2.8, celljoin 2.0 and 1.2
        # Arrow:      equality 6.6 and 3.2, band 4.4 and 2.6, celljoin 3.1 and 1.3
        self._own_tables = window > LARGE and kind != "celljoin"
        self._connection = package("duckdb").connect()
        self._windows: dict[Side, Any] = {}
        self._head, self._kept = dict.fromkeys(SIDES, 0), dict.fromkeys(SIDES, 0)
        for side in SIDES:
            self._windows[side] = self._table(side, (np.empty(0, self._dtypes[0]), np.empty(0, self._dtypes[1])))
            if self._own_tables:
                self._connection.register("fresh", self._windows[side])
                self._connection.execute(f"CREATE TABLE {side}_ AS SELECT *, 0::BIGINT AS number FROM fresh")
        condition = f"x BETWEEN a - {self.width} AND a + {self.width}" if self.width else "x = a"
        if kind == "celljoin":
            condition += f" AND y BETWEEN b - {self.width}::FLOAT AND b + {self.width}::FLOAT"
        self._condition = condition + (" AND batch.bin = stored.bin" if self._binned else "")

    def _table(self, side: Side, batch: Columns) -> Any:
        columns = dict(zip(NAMES[side], batch, strict=True))
        if self._bins is not None:
            columns["bin"] = self._bins.stored(batch)
        return pa.table(columns)

    def _append(self, side: Side, batch: Columns) -> None:
        fresh = self._table(side, batch)
        if not self._own_tables:
            parts = [fresh.slice(at, CHUNK) for at in range(0, len(fresh), CHUNK)]  # chunks for the threads
            window = pa.concat_tables([self._windows[side], *parts])
            self._windows[side] = window.slice(max(len(window) - self.window, 0))
            return
        numbers = np.arange(self._head[side], self._head[side] + len(fresh))
        self._connection.register("fresh", fresh.append_column("number", pa.array(numbers)))
        self._connection.execute(f"INSERT INTO {side}_ SELECT * FROM fresh")
        self._head[side] += len(fresh)
        oldest = self._head[side] - self.window
        if oldest - self._kept[side] > self.window // 8:  # after each batch: 2.4 instead of 2.5 (band, 1M)
            self._connection.execute(f"DELETE FROM {side}_ WHERE number < {oldest}")
            self._kept[side] = oldest

    def _join(self, side: Side, batch: Columns) -> Any:
        columns = batch if self._bins is None else self._bins.probing(batch)
        names = NAMES[side] if self._bins is None else (*NAMES[side], "bin")
        self._connection.register("batch", pa.table(dict(zip(names, columns, strict=True))))
        stored = other(side)
        query = f"SELECT x, y, a, b FROM batch JOIN {stored}_ AS stored ON {self._condition}"
        if self._own_tables:
            query += f" WHERE number >= {self._head[stored] - self.window}"
        else:
            self._connection.register(f"{stored}_", self._windows[stored])
        return self._connection.sql(query).to_arrow_table()

    def _count(self, result: Any) -> int:
        return int(result.num_rows)

    def _rows(self, result: Any) -> Rows:
        x, y, a, b = (result[name].to_numpy() for name in RESULT_NAMES)
        return x, y, a, b

    def _as_table(self, result: Any) -> pa.Table:
        return result.select(RESULT_NAMES)


class DuckDBBinned(DuckDB):
    """Windows have a column of bins. The batch has a copy of each tuple per bin, and is joined on equal bins."""

    name = "DuckDB, binned"  # 4.4 and 2.8 (band), 3.1 and 1.3 (celljoin)
    _binned = True
