"""Whole tables and readers: walked in time order, in slices, with the results of the plain meaning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin import oracle
from streamjoin.engine import replay
from streamjoin.predicate import plan_for, slots
from streamjoin.predicate.evaluate import is_true
from streamjoin.store import walk_back

from .. import constants, interpreted
from ..predicates import BAND
from ..streams import left, opened, right

WINDOWS: list[Any] = [sj.TimeWindow(1), sj.TimeWindow(7), 1, 5]
Rows = list[tuple[int, int]]
ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=25)


@contextmanager
def smaller(**values: int) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        constants.replace(patch, **values)
        yield patch


def table(rows: Rows) -> pa.Table:
    columns = {"t": [t for t, _ in rows], "k": [k for _, k in rows], "n": list(range(len(rows)))}
    return pa.table(columns, schema=pa.schema([(name, pa.int64()) for name in columns]))


@given(
    ROWS, ROWS, st.sampled_from(WINDOWS), st.sampled_from(WINDOWS), st.sampled_from(["inner", "full", "semi", "anti"]),
    st.sampled_from(["none", "sorted"]), st.booleans(), st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=150)
def test_tables_of_any_order_in_slices_of_any_size(
    l: list[tuple[int, int]],
    r: list[tuple[int, int]],
    wl: Any,
    wr: Any,
    how: Any,
    order: Any,
    in_order: bool,
    size: int,
) -> None:
    if in_order:
        l, r = sorted(l, key=lambda row: row[0]), sorted(r, key=lambda row: row[0])
    windows = tuple(sj.CountWindow(w) if isinstance(w, int) else w for w in (wl, wr))
    tables = table(l), table(r)
    with smaller(SLICE=size, ENOUGH=3) as patch:
        interpreted.install(patch)
        out = sj.join(*tables, on=BAND, window=(wl, wr), time="t", how=how, order=order)
    rows = [t.to_pylist() for t in tables]
    wanted = oracle.join_rows(
        *rows, lambda a, b: abs(a["k"] - b["k"]) <= 1, windows, time=("t", "t"), how=how,
    )  # fmt: skip
    partner = out["n_right"].to_pylist() if how in ("inner", "full") else [None] * out.num_rows
    found = list(zip(out["n"].to_pylist(), partner, strict=True))
    assert sorted(found, key=str) == sorted(wanted, key=str)
    if order == "sorted":
        assert found == wanted


AS_OF = (
    "l.k = r.k",
    "l.k = r.k AND l.p > r.p",
    "l.p > r.p",
    "l.k IS NULL OR l.k <= r.k",
    "TRUE",
    "l.s = r.s",
    "l.k = 2 AND r.p > 1",
)
"""With and without equality, NULLs that match, no condition, texts whose hashes must be compared again, a filter."""
AS_OF_ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 3)), max_size=25)


def as_of_table(rows: list[tuple[int, int, int]]) -> pa.Table:
    """Every key of 0 is NULL. Texts are long."""
    keys = [k or None for _, k, _ in rows]
    columns = {
        "t": pa.array([t for t, _, _ in rows], pa.int64()), "k": pa.array(keys, pa.int64()),
        "p": pa.array([p for _, _, p in rows], pa.int32()), "n": pa.array(range(len(rows)), pa.int64()),
        "s": pa.array([None if k is None else f"a long text {k}" for k in keys], pa.string()),
    }  # fmt: skip
    return pa.table(columns)


@pytest.mark.parametrize("on", AS_OF)
@given(
    AS_OF_ROWS, AS_OF_ROWS, st.sampled_from(WINDOWS), st.sampled_from(WINDOWS), st.sampled_from(["inner", "left"]),
    st.sampled_from(["latest", "nearest"]), st.sampled_from(["none", "sorted", "punctuated"]), st.booleans(),
    st.sampled_from([0, 1, 3, 1000]), st.sampled_from(["compiled", "meanwhile", "running"]),
)  # fmt: skip
@settings(max_examples=50)
def test_as_of_joins_of_tables(
    on: str,
    l: list[tuple[int, int, int]],
    r: list[tuple[int, int, int]],
    wl: Any,
    wr: Any,
    how: Any,
    match: Any,
    order: Any,
    in_order: bool,
    patience: int,
    way: str,
) -> None:
    """Walking back in compiled code, in NumPy until there is some, or, where that takes too long, the running join."""
    if in_order:
        l, r = sorted(l, key=lambda row: row[0]), sorted(r, key=lambda row: row[0])
    tables = as_of_table(l), as_of_table(r)
    with smaller(SLICE=7, ENOUGH=3, WALK_FREE=0, WALK_PATIENCE=patience, WALK_AT_ONCE=5, WALK_MOST=7) as patch:
        interpreted.install(patch)
        if way == "meanwhile":
            patch.setattr("streamjoin.engine.as_of.rehearsed", lambda *_: lambda: False)
            patch.setattr(walk_back, "link", walk_back._link_in_numpy)
            patch.setattr(walk_back, "last_below", walk_back._last_below_in_numpy)
        out = sj.join(
            *tables, on=on, window=(wl, wr), time="t", how=how, match=match, order=order,
            index="auto" if way != "running" else "scan",
        )  # fmt: skip
    plan = plan_for(on, *(t.schema for t in tables))
    windows = tuple(sj.CountWindow(w) if isinstance(w, int) else w for w in (wl, wr))
    wanted = oracle.join_rows(
        *(t.to_pylist() for t in tables), is_true(plan.predicate), windows, time=("t", "t"), how=how, match=match,
    )  # fmt: skip
    found = list(zip(out["n"].to_pylist(), out["n_right"].to_pylist(), strict=True))
    assert sorted(found, key=str) == sorted(wanted, key=str)
    if order == "sorted":
        assert found == wanted
    rows = [None if n is None else tables[1].slice(n, 1).to_pylist()[0] for _, n in found]
    for name in ("t", "k", "p", "s"):
        assert out[name].to_pylist() == [tables[0][name][n].as_py() for n, _ in found]
        assert out[f"{name}_right"].to_pylist() == [None if row is None else row[name] for row in rows]


def test_a_false_hash_does_not_hide_the_partner_behind_it() -> None:
    """Long texts are compared by hash. Where two hashes are the same by chance, the running join decides."""
    tables = as_of_table([(5, 1, 0)]), as_of_table([(1, 1, 0), (2, 2, 0)])
    with smaller() as patch:
        interpreted.install(patch)
        patch.setattr(slots, "text_words", lambda texts, domain: (np.full(len(texts), 2**63 - 1), None))
        arguments: dict[str, Any] = {"on": "l.s = r.s", "window": sj.TimeWindow(9), "time": "t", "match": "latest"}
        assert sj.join(*tables, **arguments)["n_right"].to_pylist() == [0]


def slow_reader(rows: pa.Table, size: int, read: list[int]) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows.to_batches(max_chunksize=size):
            read.append(batch.num_rows)
            yield batch

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def test_readers_are_read_as_needed_and_give_what_tables_give() -> None:
    rng = np.random.default_rng(3)
    tables = [table(sorted(zip(rng.integers(0, 9000, 9000).tolist(), rng.integers(0, 50, 9000).tolist(), strict=True)))
              for _ in range(2)]  # fmt: skip
    arguments: dict[str, Any] = {"on": BAND, "window": sj.TimeWindow(20), "time": "t"}
    wanted = sj.join(*tables, **arguments)
    read: list[int] = []
    with smaller(SLICE=64, ENOUGH=100):
        out = sj.join_batches(*(slow_reader(t, 100, read) for t in tables), **arguments)
        assert out.schema == wanted.schema
        first = out.read_next_batch()
        assert first.num_rows
        assert sum(read) < 18_000  # pushes are collected for a while, however many there are
        rest = out.read_all()
    key = [("n", "ascending"), ("n_right", "ascending")]
    assert pa.concat_tables([pa.Table.from_batches([first]), rest]).sort_by(key).equals(wanted.sort_by(key))
    assert sum(read) == 18_000


def test_a_reader_that_goes_back_in_time_is_refused() -> None:
    rows = table([(5, 1), (9, 1), (2, 1)])
    with smaller(SLICE=2):
        for lateness, fails in ((0, True), (6, True), (7, False)):
            out = sj.join_batches(
                slow_reader(rows, 2, []), rows, on=BAND, window=sj.TimeWindow(9), time="t", lateness=lateness
            )
            if fails:
                with pytest.raises(sj.DataError, match="left: the time column 't' goes back from 9 to 2"):
                    out.read_all()
            else:
                assert out.read_all().num_rows == 9


def test_what_was_found_before_an_input_failed_comes_first() -> None:
    rows = table([(n, n) for n in range(100)])

    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches(max_chunksize=10)
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(rows.schema, failing())
    with smaller(SLICE=20):
        out = sj.join_batches(reader, rows, on=BAND, window=sj.TimeWindow(1), time="t")
        assert out.read_next_batch().num_rows >= 60
    with pytest.raises(OSError, match="the disk is gone"):
        out.read_all()


def test_a_heartbeat_is_of_the_type_of_the_time_column() -> None:
    now = datetime(2026, 1, 1)
    for zone, wrong in ((None, now.replace(tzinfo=UTC)), ("UTC", now)):
        schema = pa.schema([("t", pa.timestamp("us", zone)), ("x", pa.int64())])
        with sj.WindowJoin(schema, schema, on="l.x = r.x", window="1 second", time="t") as join:
            for given in (wrong, None, 1_767_225_600_000_000, True):
                with pytest.raises(sj.ArgumentError, match="as the time column 't' has it"):
                    join.heartbeat("left", given)
            join.heartbeat("left", now if zone is None else now.replace(tzinfo=UTC))


def test_errors_name_the_input() -> None:
    good, bad = table([(1, 1)]), pa.table({"t": pa.array([None], pa.int64()), "k": [1], "n": [1]})
    with pytest.raises(sj.DataError, match=r"^right: time column 't' is NULL"):
        sj.join(good, bad, on=BAND, window=sj.TimeWindow(9), time="t")


def test_the_rest_of_one_table_does_not_pile_up() -> None:
    """The other one has ended, so windows close behind the rows that still come."""
    few, many = table([(1, 1)]), table([(t, t % 5) for t in range(20_000)])
    with smaller(SLICE=500), opened(left=few.schema, right=many.schema, on=BAND, time="t") as join:
        most = 0
        for _ in replay.replay(join, few, slow_reader(many, 500, [])):
            most = max(most, join.metrics()["right"]["window"])
        assert most < 5000


def test_a_heartbeat_moves_time_on() -> None:
    with opened(order="sorted") as join:
        join.push_left(left([1, 5]))
        join.push_right(right([1]))
        assert join.poll().num_rows == 0
        join.heartbeat("right", 6)
        assert join.poll().num_rows == 1
        join.push_left(left([20]))
        join.end("right")
        assert join.metrics()["left"]["waiting"] == 1
        with pytest.raises(sj.ArgumentError, match="time: 'soon' is no int64"):
            join.heartbeat("right", "soon")
        for wrong in (1.5, True, None):
            with pytest.raises(sj.ArgumentError, match=f"time: {wrong} is no int64"):
                join.heartbeat("right", wrong)
        with pytest.raises(sj.ArgumentError, match="side"):
            join.end("both")  # type: ignore[arg-type]
    with opened(time=None, window=5) as join, pytest.raises(sj.ArgumentError, match="no time column"):
        join.heartbeat("left", 1)


@pytest.mark.parametrize("time", ["t", None])
def test_an_ended_stream_takes_no_more_rows(time: str | None) -> None:
    """None of them is dropped in silence."""
    table = pa.table({"t": [1, 2], "k": [1, 1]})
    with sj.WindowJoin(table.schema, table.schema, on="l.k = r.k", window=5, time=time) as join:
        join.push_left(table)
        join.end("left")
        with pytest.raises(sj.StateError, match=r"push_left: end\('left'\) has ended this stream"):
            join.push_left(table)
        with pytest.raises(sj.StateError, match=r"^end: end\('left'\) has ended this stream"):
            join.end("left")
        if time is not None:
            with pytest.raises(sj.StateError, match=r"heartbeat: end\('left'\) has ended this stream"):
                join.heartbeat("left", 3)
        join.push_right(table)
        assert join.finish().num_rows == 4
        assert join.metrics()["late"] == 0


def test_a_heartbeat_behind_its_stream_changes_nothing() -> None:
    """Neither behind an earlier one, nor behind rows: what was late stays late, and what was not does not become so."""
    with opened(order="sorted", lateness=2) as join:
        join.push_left(left([10]))
        join.heartbeat("left", 3)
        join.push_left(left([8]))
        join.heartbeat("right", 20)
        join.heartbeat("right", 5)
        assert join.poll().num_rows == 0
        assert join.watermark == 8
        join.push_right(right([17, 18]))
        assert [join.metrics()[side]["late"] for side in ("left", "right")] == [0, 1]


def test_unmatched_rows_come_when_the_silent_side_says_its_time() -> None:
    with opened(how="anti") as join:
        join.push_left(left([1]))
        assert join.poll().num_rows == 0
        join.heartbeat("right", 100)
        assert join.poll().num_rows == 1


def test_a_silent_side_stops_the_other_at_the_limit() -> None:
    rows = left(list(range(70_000)))
    with opened(order="sorted", max_pending=10) as join:
        join.push_left(rows)
        with pytest.raises(sj.BackPressure, match="push_left: 70000 rows of this stream wait for the other one"):
            join.push_left(rows.slice(69_999))
        join.heartbeat("right", 80_000)
        join.push_left(rows.slice(69_999))
        assert join.metrics()["left"]["waiting"] == 2


@pytest.mark.parametrize(
    "arguments",
    [{"window": 200}, {"window": sj.TimeWindow(2000), "time": "t"}, {"window": 200, "time": "t", "order": "sorted"}],
)
def test_any_number_of_results_and_of_waiting_rows(arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither stops a join of whole inputs."""
    monkeypatch.setattr("streamjoin.engine.steps.MAX_BATCH", 10)
    few, many = table([(500, 1), (999, 1)]), table([(t, 1) for t in range(1000)])
    wanted = [sj.join(one, many, on=BAND, **arguments).num_rows for one in (few, many)]
    with smaller(SLICE=100, ENOUGH=20):
        for one, count in zip((few, many), wanted, strict=True):
            options = {"left": one.schema, "right": many.schema, "on": BAND, "time": None, **arguments}
            with opened(**options, max_pending=50) as join:
                assert sum(piece.num_rows for piece in replay.replay(join, one, many)) == count


def test_tables_of_any_type_may_be_out_of_order() -> None:
    """Types that Arrow cannot take rows of are kept as they are."""
    views = pa.array(["b", "a", None], pa.string_view())
    rows = pa.table({"t": [3, 1, 2], "k": [1, 1, 1], "n": [0, 1, 2], "v": views})
    out = sj.join(rows, rows, on=BAND, window=sj.TimeWindow(5), time="t")
    assert out.schema.field("v").type == pa.string_view()
    assert sorted(out["v"].to_pylist(), key=str) == sorted(["a", "b", None] * 3, key=str)


def test_one_reader_cannot_be_both_inputs() -> None:
    reader = slow_reader(table([(1, 1)]), 1, [])
    with pytest.raises(sj.ArgumentError, match="right: it is the same reader as left"):
        sj.join_batches(reader, reader, on=BAND, window=5)
