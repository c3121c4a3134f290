"""What may be pushed, in which forms; what is refused leaves the join as it was."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import testing

from .. import interpreted
from ..streams import left, opened, right

BAD_BATCHES: dict[str, tuple[Any, type[Exception], str]] = {
    "a column is missing": (left([1]).drop_columns("x"), sj.SchemaError, "x"),
    "a column too many": (left([1]).append_column("more", pa.array([1])), sj.SchemaError, "more"),
    "another type": (left([1]).set_column(1, "k", pa.array(["1"])), sj.SchemaError, "'k'"),
    "a wider type": (left([1]).set_column(2, "x", pa.array([1], pa.int64())), sj.SchemaError, "'x'"),
    "no Arrow data": ([1, 2, 3], sj.SchemaError, "list"),
    "nothing": (None, sj.SchemaError, "NoneType"),
    "a NULL timestamp": (left([1, 2]).set_column(0, "ts", pa.array([5, None], pa.int64())), sj.DataError, "row 1"),
}


@pytest.mark.parametrize("order", ["none", "sorted"])
@pytest.mark.parametrize("bad", BAD_BATCHES)
def test_a_bad_batch_leaves_the_join_as_it_was(bad: str, order: str) -> None:
    batch, error, word = BAD_BATCHES[bad]
    with opened(order=order) as join:
        join.push_left(left([1, 2]))
        join.push_right(right([1]))
        before = join.metrics()
        for _ in range(2):
            with pytest.raises(error) as caught:
                join.push_left(batch)
            assert "push_left" in str(caught.value)
            assert word in str(caught.value)
        assert join.metrics() == before
        join.push_left(left([3]))
        assert join.finish().num_rows == 3


def test_timestamps_beyond_64_bits_are_refused() -> None:
    unsigned = pa.schema({"ts": pa.uint64(), "k": pa.int64()})
    with opened(left=unsigned, right=unsigned) as join:
        with pytest.raises(sj.DataError, match="18446744073709551615"):
            join.push_left(pa.table([[2**64 - 1], [1]], schema=unsigned))
        join.push_left(pa.table([[1], [1]], schema=unsigned))
    for end in (-(2**63), 2**63 - 1):  # nothing is beyond them for a window to end at
        with opened() as join, pytest.raises(sj.DataError, match="64 bits"):
            join.push_left(left([end]))
    seconds, nanos = (pa.schema({"ts": pa.timestamp(unit), "k": pa.int64()}) for unit in ("s", "ns"))
    with opened(left=seconds, right=nanos, window="5 s") as join:
        year_9999 = pa.table([pa.array([253402300799], pa.timestamp("s")), [1]], schema=seconds)
        with pytest.raises(sj.DataError, match="64 bits"):
            join.push_left(year_9999)


def shapes(table: pa.Table) -> dict[str, Any]:
    """One table in all the forms in which it may be pushed."""
    import duckdb
    import polars

    pandas = table.to_pandas()
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1)])
    padded = pa.concat_tables([table, table, table]).combine_chunks()
    return {
        "Table": table,
        "RecordBatch": table.combine_chunks().to_batches()[0],
        "reader": table.to_reader(),
        "chunked": chunked,
        "sliced": padded.slice(table.num_rows, table.num_rows),
        "sliced batch": padded.to_batches()[0].slice(table.num_rows, table.num_rows),
        "polars": polars.from_arrow(table),
        "pandas": pandas,
        "duckdb": duckdb.sql("SELECT * FROM pandas"),
        "other column order": table.select(table.column_names[::-1]),
    }


@pytest.mark.parametrize("order", ["none", "sorted"])
@pytest.mark.parametrize("form", shapes(left([1])))
def test_anything_with_the_capsule_interface(form: str, order: str) -> None:
    l, r = left([1, 2, 3], [1, 2, 1]), right([3, 3, 4], [1, 2, 3])
    wanted = sj.join(l, r, on="l.k = r.k", window=sj.TimeWindow(10), time="ts", order="sorted")
    assert wanted.num_rows == 3
    with opened(order=order) as join:
        join.push_left(shapes(l)[form])
        join.push_right(shapes(r)[form])
        testing.assert_same_rows(join.finish(), wanted, ordered=order == "sorted")
    if form != "other column order":
        arguments: dict[str, Any] = {"on": "l.k = r.k", "window": 10, "order": order}
        whole = sj.join(shapes(l)[form], shapes(r)[form], **arguments)
        rows = [list(row.values()) for row in whole.to_pylist()]
        assert rows == [list(row.values()) for row in sj.join(l, r, **arguments).to_pylist()]


def test_schemas_from_data_frames() -> None:
    import polars

    frames = polars.from_arrow(left([1])), right([1]).to_pandas()
    with sj.WindowJoin(*frames, on="l.k = r.k", window=5) as join:
        join.push_left(frames[0])
        join.push_right(frames[1])
        assert join.finish().num_rows == 1


def test_sliced_columns_of_every_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are read from buffers, so offsets and validity bits count. How kernels compare them does not matter here."""
    interpreted.install(monkeypatch)
    types = {
        "b": pa.bool_(), "i": pa.int16(), "f": pa.float32(), "m": pa.decimal128(10, 2), "s": pa.string(),
        "d": pa.date32(), "t": pa.timestamp("ms"), "m64": pa.decimal64(10, 2), "m32": pa.decimal32(5, 2),
    }  # fmt: skip
    whole = testing.stream(40, columns=types, seed=4, domain=6, nulls=0.3, time_type=pa.int64(), start=0)
    l, r = whole.slice(3, 17), whole.slice(11, 13)
    for name in types:
        arguments: dict[str, Any] = {"on": f"l.{name} = r.{name}", "window": 50, "order": "sorted"}
        copies = [pa.Table.from_pylist(t.to_pylist(), schema=t.schema) for t in (l, r)]
        testing.assert_same_rows(sj.join(l, r, **arguments), sj.join(*copies, **arguments), ordered=True)
        assert sj.join(l, r, **arguments).num_rows > 0


def test_columns_that_arrow_cannot_make_empty_travel_along() -> None:
    union = pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["x"])]
    )
    left, right = pa.table({"k": [1, 2, 3], "v": union}), pa.table({"k": [1, 2, 9]})
    assert sj.join(left, right, on="l.k = r.k", window=3)["v"].to_pylist() == [1, "x"]


def test_aliases_and_time_pair() -> None:
    l = pa.table({"at": [1, 5], "price": [10, 20]})
    r = pa.table({"when": [1, 5], "bid": [10, 20]})
    out = sj.join(
        l, r, on="trades.price = quotes.bid", window=sj.TimeWindow(3), time=("at", "when"), aliases=("trades", "quotes")
    )
    assert out.num_rows == 2
    assert sj.join(l, r, on="price = bid", window=5).num_rows == 2
    with pytest.raises(sj.PredicateError, match="trades"):
        sj.join(l, r, on="l.price = r.bid", window=5, aliases=("trades", "quotes"))


def test_rows_pushed_one_by_one() -> None:
    l = testing.stream(150, columns={"k": "int32"}, seed=1, domain=9, time_type=pa.int64(), start=0, interval=3)
    r = testing.stream(150, columns={"k": "int32"}, seed=2, domain=9, time_type=pa.int64(), start=0, interval=3)
    arguments: dict[str, Any] = {"on": "l.k = r.k", "window": sj.TimeWindow(40), "time": "ts", "order": "sorted"}
    parts = []
    with sj.WindowJoin(l.schema, r.schema, **arguments) as join:
        for i in range(150):
            join.push_left(l.slice(i, 1))
            join.push_right(r.slice(i, 1))
            parts.append(join.poll())
        parts.append(join.finish())
    assert sum(part.num_rows > 0 for part in parts) > 20
    assert pa.concat_tables(parts).equals(sj.join(l, r, **arguments))
