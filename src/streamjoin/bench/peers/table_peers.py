"""Peers that join any two tables: Polars, DuckDB and NumPy, with bins where the query asks for them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import Array
from ...side import Side
from .base import package
from .query import TIMES, Query


class TablePeer(ABC):
    """Joins tables of one query. `frame` makes of an Arrow table what the peer keeps; results are frames too."""

    def __init__(self, query: Query, schemas: dict[Side, pa.Schema], *, binned: bool = False) -> None:
        self.query, self.binned = query, binned
        self._names: dict[Side, list[str]] = {side: schema.names for side, schema in schemas.items()}

    def stored(self, side: Side, table: pa.Table) -> Any:
        table = self.query.helped(side, table)
        return self.frame(self.query.stored(side, table) if self.binned else table)

    def probing(self, side: Side, table: pa.Table) -> Any:
        table = self.query.helped(side, table)
        return self.frame(self.query.probing(side, table) if self.binned else table)

    def join(self, left: pa.Table, right: pa.Table) -> int:
        """Join two whole tables, and count the results. The smaller table is copied for its bins."""
        if self.query.match == "latest":
            return self.count(self.latest(self.stored("left", left), self.stored("right", right)))
        if self.query.how != "inner":
            left = left.append_column("_id", pa.array(np.arange(len(left))))
            return self.count(self.unmatched(left, self.probing("left", left), self.stored("right", right)))
        if len(left) <= len(right):
            return self.count(self.pairs(self.probing("left", left), self.stored("right", right)))
        return self.count(self.pairs(self.stored("left", left), self.probing("right", right)))

    @abstractmethod
    def frame(self, table: pa.Table) -> Any: ...

    @abstractmethod
    def appended(self, window: Any, fresh: Any, drop: int) -> Any:
        """The window without its first `drop` rows, and with fresh ones behind."""

    @abstractmethod
    def pairs(self, left: Any, right: Any) -> Any:
        """All columns of the pairs."""

    @abstractmethod
    def unmatched(self, whole: pa.Table, left: Any, right: Any) -> Any:
        """The result of a left or anti join; rows of `whole` and of `left` have numbers in the column _id."""

    @abstractmethod
    def latest(self, left: Any, right: Any) -> Any:
        """Each left row with its last partner that is not younger."""

    @abstractmethod
    def count(self, result: Any) -> int: ...


class PolarsTables(TablePeer):
    """`join` on the keys and the bins, then a filter; without any key `join_where`. All cores."""

    def __init__(
        self, query: Query, schemas: dict[Side, pa.Schema], *, binned: bool = False, streaming: bool = False
    ) -> None:
        super().__init__(query, schemas, binned=binned)
        self._polars = pl = package("polars")
        self._engine = "streaming" if streaming else "in-memory"
        self._on = [pl.sql_expr(re.sub(r"\b[lr]\.", "", query.on))]
        if (time := query.time) is not None:
            distance = pl.col(time.left) - pl.col(time.right)
            self._on += [distance >= time.low, distance <= time.high]

    def frame(self, table: pa.Table) -> Any:
        return self._polars.from_arrow(table, rechunk=False)

    def appended(self, window: Any, fresh: Any, drop: int) -> Any:
        whole = self._polars.concat([window.slice(drop), fresh], rechunk=False)
        return whole.rechunk() if whole.n_chunks() > 4 else whole

    def _joined(self, left: Any, right: Any) -> Any:
        on = {f"{side}_on": self.query.keys(side, binned=self.binned) for side in TIMES}
        if not on["left_on"]:
            return left.lazy().join_where(right.lazy(), *self._on)
        return left.lazy().join(right.lazy(), **on, coalesce=False).filter(*self._on)

    def pairs(self, left: Any, right: Any) -> Any:
        names = self._names["left"] + self._names["right"]
        return self._joined(left, right).select(names).collect(engine=self._engine)

    def unmatched(self, whole: pa.Table, left: Any, right: Any) -> Any:
        names, everything = self._names["left"], self.frame(whole)
        if self.query.how == "anti":
            found = self._joined(left, right).select("_id").collect(engine=self._engine)
            return everything.join(found, on="_id", how="anti").select(names)
        found = self._joined(left, right).select("_id", *names, *self._names["right"]).collect(engine=self._engine)
        rest = everything.join(found.select("_id"), on="_id", how="anti")
        return self._polars.concat([found, rest], how="diagonal").drop("_id")

    def latest(self, left: Any, right: Any) -> Any:
        time = self.query.time
        assert time is not None
        found = left.lazy().join_asof(
            right.lazy(), left_on=time.left, right_on=time.right, coalesce=False, strategy="backward",
            tolerance=time.high, by_left=self.query.keys("left", binned=False),
            by_right=self.query.keys("right", binned=False),
        )  # fmt: skip
        return found.filter(self._polars.col(time.right).is_not_null()).collect(engine=self._engine)

    def count(self, result: Any) -> int:
        return int(result.height)


class DuckDBTables(TablePeer):
    """SQL over Arrow tables, with the bins among the conditions. Results are Arrow. All cores."""

    def __init__(self, query: Query, schemas: dict[Side, pa.Schema], *, binned: bool = False) -> None:
        super().__init__(query, schemas, binned=binned)
        self._connection = package("duckdb").connect()
        self._connection.execute("SET enable_progress_bar = false")
        keys = zip(query.keys("left", binned=binned), query.keys("right", binned=binned), strict=True)
        conditions = [f"l.{left} = r.{right}" for left, right in keys] + [query.on]
        if (time := query.time) is not None:
            conditions.append(f"l.{time.left} - r.{time.right} BETWEEN {time.low} AND {time.high}")
        self._from = "FROM l JOIN r ON " + " AND ".join(conditions)

    def frame(self, table: pa.Table) -> Any:
        return table

    def appended(self, window: Any, fresh: Any, drop: int) -> Any:
        whole = pa.concat_tables([window.slice(drop), fresh])
        return whole.combine_chunks() if whole.column(0).num_chunks > 64 else whole

    def _answer(self, sql: str, left: Any, right: Any, whole: Any = None) -> Any:
        tables = {"l": left, "r": right} | ({} if whole is None else {"everything": whole})
        for name, table in tables.items():
            self._connection.register(name, table)
        return self._connection.sql(sql).to_arrow_table()

    def pairs(self, left: Any, right: Any) -> Any:
        names = [f"l.{name}" for name in self._names["left"]] + [f"r.{name}" for name in self._names["right"]]
        return self._answer(f"SELECT {', '.join(names)} {self._from}", left, right)

    def unmatched(self, whole: pa.Table, left: Any, right: Any) -> Any:
        mine, theirs = ", ".join(self._names["left"]), ", ".join(self._names["right"])
        if self.query.how == "anti":
            sql = f"SELECT {mine} FROM everything ANTI JOIN (SELECT _id {self._from}) USING (_id)"
        else:
            sql = (
                f"WITH found AS MATERIALIZED (SELECT _id, {mine}, {theirs} {self._from}) "
                f"SELECT * EXCLUDE (_id) FROM found "
                f"UNION ALL BY NAME SELECT {mine} FROM everything ANTI JOIN found USING (_id)"
            )
        return self._answer(sql, left, right, whole)

    def latest(self, left: Any, right: Any) -> Any:
        time = self.query.time
        assert time is not None
        names = [f"l.{name}" for name in self._names["left"]] + [f"r.{name}" for name in self._names["right"]]
        inside = f"l.{time.left} - r.{time.right} <= {time.high}"
        sql = f"FROM l ASOF JOIN r ON {self.query.on} AND l.{time.left} >= r.{time.right} WHERE {inside}"
        return self._answer(f"SELECT {', '.join(names)} {sql}", left, right)

    def count(self, result: Any) -> int:
        return int(result.num_rows)


class NumPyTables(TablePeer):
    """Sort the right by (keys, first band), `searchsorted` the ends of each range, expand, check the rest. One core.

    For complete queries only, and inner joins.
    """

    def frame(self, table: pa.Table) -> Any:
        return table

    def appended(self, window: Any, fresh: Any, drop: int) -> Any:
        return pa.concat_tables([window.slice(drop), fresh])

    def pairs(self, left: Any, right: Any) -> Any:
        bands = [band for band in (self.query.time, *self.query.bands) if band is not None]
        mine, theirs = self._identities(left, right)
        if bands:
            band, *rest = bands
            low, high = band.reached("left", _numbers(left, band.left))
            values = _numbers(right, band.right)
            start = min((int(part.min()) for part in (low, values) if len(part)), default=0)
            span = max((int(part.max()) for part in (high, values) if len(part)), default=0) - start + 1
            key, low, high = theirs * span + values - start, mine * span + low - start, mine * span + high - start
        else:
            rest, key, low, high = [], theirs, mine, mine
        order = np.argsort(key, kind="stable")
        key = key[order]
        first, last = np.searchsorted(key, low), np.searchsorted(key, high, side="right")
        counts = last - first
        ends = np.cumsum(counts)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - counts), counts)
        i, j = np.repeat(np.arange(len(mine)), counts), order[places]
        for band in rest:
            distance = _numbers(left, band.left)[i] - _numbers(right, band.right)[j]
            valid = (distance >= band.low) & (distance <= band.high)
            i, j = i[valid], j[valid]
        taken = left.select(self._names["left"]).take(pa.array(i)), right.select(self._names["right"]).take(pa.array(j))
        return pa.table([*taken[0].columns, *taken[1].columns], [*taken[0].column_names, *taken[1].column_names])

    def _identities(self, left: Any, right: Any) -> tuple[Array, Array]:
        """One number per combination of equal values, the same on both sides."""
        mine, theirs = np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)
        for one, other in self.query.equal:
            both = pa.chunked_array([*left[one].chunks, *right[other].chunks], left[one].type)
            codes = both.combine_chunks().dictionary_encode()
            numbers, size = codes.indices.to_numpy().astype(np.int64), len(codes.dictionary)
            mine, theirs = mine * size + numbers[: len(left)], theirs * size + numbers[len(left) :]
        return mine, theirs

    def unmatched(self, whole: pa.Table, left: Any, right: Any) -> Any:
        raise NotImplementedError("NumPy takes part in inner joins only")

    def latest(self, left: Any, right: Any) -> Any:
        raise NotImplementedError("NumPy finds all pairs")

    def count(self, result: Any) -> int:
        return int(result.num_rows)


def _numbers(table: Any, name: str) -> Array:
    numbers: Array = table[name].to_numpy().astype(np.int64, copy=False)
    return numbers


def table_peers(query: Query, schemas: dict[Side, pa.Schema]) -> dict[str, Callable[[], TablePeer]]:
    """How to make the peers that suit a query, by name: on bins where it has any, and plain where keys suffice."""
    makers: dict[str, Callable[[], TablePeer]] = {}
    if query.equal or not query.binned:
        makers |= {
            "Polars": partial(PolarsTables, query, schemas),
            "Polars, streaming": partial(PolarsTables, query, schemas, streaming=True),
            "DuckDB": partial(DuckDBTables, query, schemas),
        }
    if query.binned:
        makers |= {
            "Polars, binned": partial(PolarsTables, query, schemas, binned=True),
            "Polars, binned, streaming": partial(PolarsTables, query, schemas, binned=True, streaming=True),
            "DuckDB, binned": partial(DuckDBTables, query, schemas, binned=True),
        }
    if query.is_complete and query.how == "inner" and query.match == "all":
        makers["NumPy"] = partial(NumPyTables, query, schemas)
    return makers
