"""The workers find what `join` finds, for every routing, cut, partitioning and window; and forget what expires."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.spark.cache_directories import OWNER
from streamjoin.spark.segments import Cache
from streamjoin.spark.terms import check_terms
from streamjoin.testing import assert_same_rows

from ..long import LONG
from .simulated import PREDICATES, WINDOWS, Simulated, cut, dealt, make_spec, stream

pytestmark = pytest.mark.usefixtures("few_kernels")


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("on", PREDICATES)
def test_like_the_embedded_join(on: str, tmp_path: Path) -> None:
    @settings(max_examples=1_000 if LONG else 10)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        window = rng.choice(WINDOWS)
        disorder = rng.choice([0, 0, 5, 40])
        tables = [stream(rng, rng.choice([0, 1, 40, 80]), disorder) for _ in range(2)]
        workers, partitions, batches = rng.choice([1, 2, 5]), rng.choice([1, 2, 5]), rng.choice([1, 3, 10])
        spec = make_spec(
            tables[0].schema, tables[1].schema, on=on, window=window, time="ts", lateness=disorder + 4,
            workers=workers, routing=rng.choice(PREDICATES[on]), cache=str(tmp_path), bounded=batches == 1,
        )  # fmt: skip
        run = Simulated(spec, rng.shuffle)
        found = []
        for left, right in zip(*(cut(rng, table, batches) for table in tables), strict=True):
            found.append(run.step(dealt(rng, left, partitions), dealt(rng, right, partitions)))
            if rng.random() < 0.2:
                Cache.loaded.clear()  # another process
            if rng.random() < 0.1:
                shutil.rmtree(tmp_path, ignore_errors=True)
        if batches > 1 and spec.options.needs_order:  # rows far in the future make everything before them ready
            last = [pa.table({"ts": [10**6], "k": [None], "v": [None], "name": [None], "tags": [None]}, table.schema)
                    for table in tables]  # fmt: skip
            found.append(run.step([last[0]], [last[1]]))
        expected = sj.join(tables[0], tables[1], on=on, window=window, time="ts")
        assert_same_rows(pa.concat_tables(found), expected, context=(seed, spec.routing, workers, partitions, window))
        assert sum(f["out"] for f in run.figures) == expected.num_rows
        assert sum(f["left_in"] for f in run.figures) >= tables[0].num_rows
        assert not any(f["left_late"] or f["right_late"] for f in run.figures)
        assert all(f["rows_held"] >= f["left_window"] + f["right_window"] for f in run.figures)

    one()


def test_late_rows_are_counted_once_and_kept(tmp_path: Path) -> None:
    for routing in ("broadcast", "hash", "range", "blocks"):
        rng = random.Random(7)
        on = "l.k = r.k AND l.v BETWEEN r.v - 3 AND r.v + 30"
        first, second = stream(rng, 60, 0), stream(rng, 60, 0)
        spec = make_spec(
            first.schema, first.schema, on=on, window=sj.TimeWindow(40), time="ts", lateness=10, late="keep",
            workers=3, routing=routing, cache=str(tmp_path),
        )  # fmt: skip
        run = Simulated(spec)
        run.step([first.slice(0, 50)], [second.slice(0, 50)])
        furthest = first["ts"][49].as_py(), second["ts"][49].as_py()
        old = first.slice(0, 5), pa.concat_tables([second.slice(0, 3), second.slice(48)])
        run.step([old[0]], [old[1]])
        late = {side: pa.concat_tables(tables) for side, tables in run.late.items()}
        for table, side, most in zip(old, ("left", "right"), furthest, strict=True):
            expected = table.filter(pa.compute.less(table["ts"], most - 10))
            assert_same_rows(late[side], expected, context=(routing, side))
            assert sum(figures[f"{side}_late"] for figures in run.figures) == expected.num_rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": (0, 2)}, r"partitions: the checkpoint belongs to a join with 2 workers \(0, 1\)"),
        ({"routing": "hash"}, "routing: the checkpoint belongs to a join with broadcast, and the query now has hash"),
        ({"on": "l.k > r.k"}, "on: the checkpoint belongs to a join with l.k = r.k, and the query now has l.k > r.k"),
        (
            {"options": {"lateness": "1 minute"}},
            "lateness: the checkpoint belongs to a join with 0 seconds, and the query now has 1 minute; give the same "
            "again, or begin with a new checkpoint location",
        ),
        (
            {"options": {"window": ("90 s", 7)}},
            "window: .* with 5 rows and 2 seconds, and .* has 90 seconds and 7 rows",
        ),
        ({"options": {"time": ("ts", "at")}}, "time: .* with 'ts', and the query now has 'ts' and 'at'"),
        (
            {"schemas": ("left", "k")},
            "left: .* with the columns ts: timestamp.us., k: int32, .* give the stream the same",
        ),
    ],
)
def test_a_checkpoint_of_another_join_is_refused(change: dict, message: str, tmp_path: Path) -> None:
    run, table = begun(tmp_path)
    spec = run.spec
    if "options" in change:
        arguments = {"window": (5, "2 seconds"), "time": "ts", **change["options"]}
        changed = make_spec(table.schema, table.schema, on="l.k = r.k", workers=2, cache=str(tmp_path), **arguments)
        change = {"options": changed.options}
    if "schemas" in change:
        side, without = change["schemas"]
        schema = table.schema.remove(table.schema.get_field_index(without))
        change = {"schemas": {**spec.schemas, side: schema}}
    with pytest.raises(sj.StateError, match=message):
        check_terms(spec.terms, replace(spec, **change))
    if not {"options", "schemas"} & set(change):
        run.spec = replace(spec, **change)
        with pytest.raises(sj.StateError, match=message):
            run.step([table], [table])


def begun(directory: Path) -> tuple[Simulated, pa.Table]:
    """A join after its first micro-batch, and the table that both its streams have brought."""
    table = stream(random.Random(0), 10, 0)
    times = table["ts"].cast(pa.timestamp("us"))
    table = table.set_column(0, "ts", times).append_column("at", times)
    spec = make_spec(
        table.schema, table.schema, on="l.k = r.k", window=(5, "2 seconds"), time="ts", workers=2, cache=str(directory)
    )  # fmt: skip
    run = Simulated(spec)
    run.step([table], [table])
    return run, table


def test_a_checkpoint_of_another_spelling_goes_on(tmp_path: Path) -> None:
    run, table = begun(tmp_path)
    run.spec = replace(run.spec, on="another text", spellings=("l.k = r.k",))
    run.step([table], [table])
    run.spec = replace(run.spec, spellings=())  # the state now has the canonical text
    run.step([table], [table])


def test_attempts_at_a_batch_write_the_same_keys(tmp_path: Path) -> None:
    """Spark may put the snapshot of one attempt and the changes of another together."""
    table = stream(random.Random(0), 400, 0)
    schema, on, window = table.schema, "l.v BETWEEN r.v - 3 AND r.v + 3", sj.TimeWindow(100)
    runs = [
        Simulated(make_spec(schema, schema, on=on, window=window, time="ts", workers=2, cache=str(tmp_path / name)))
        for name in ("one", "other")
    ]
    for start in range(0, 400, 40):
        for run in runs:
            run.step([table.slice(start, 40)], [table.slice(start, 40)])
        for one, other in zip(runs[0].states, runs[1].states, strict=True):
            assert set(one) == set(other)
    for one, other in zip(runs[0].states, runs[1].states, strict=True):  # rows of one attempt, memory of the other
        other.update({name: body for name, body in one.items() if name != "memory"})
    more = table.slice(390).set_column(0, "ts", pa.array(range(1000, 1010)))
    assert_same_rows(runs[1].step([more], [more]), runs[0].step([more], [more]))


def test_results_larger_than_a_column_of_texts_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamjoin.spark.side_segments.BLOB_BYTES", 1 << 12)
    texts = ["x" * 500] * 40
    table = pa.table({"ts": range(40), "text": texts})
    spec = make_spec(table.schema, table.schema, on="TRUE", window=sj.TimeWindow(100), time="ts", cache=str(tmp_path))
    run = Simulated(spec)
    assert run.step([table], [table]).num_rows == 1600


@pytest.mark.parametrize("window", [sj.TimeWindow(100), 50], ids=str)
def test_state_is_released(window: sj.TimeWindow | int, tmp_path: Path) -> None:
    """Many small batches: few segments, no more rows than the window and the youngest segments hold, no files left."""
    rng = random.Random(0)
    table = stream(rng, 3000, 0)
    on = "l.v BETWEEN r.v - 3 AND r.v + 3"
    spec = make_spec(table.schema, table.schema, on=on, window=window, time="ts", workers=2, cache=str(tmp_path))
    run = Simulated(spec)
    names, rows = [], []
    for start in range(0, 3000, 30):
        run.figures.clear()
        run.step([table.slice(start, 30)], [table.slice(start, 30)])
        names.append(sum(len(state) for state in run.states))
        rows.append(sum(figures["left_window"] for figures in run.figures))
    assert max(names[10:]) <= 2 * (1 + 2 * 6)
    assert max(rows[10:]) <= 4 * 100
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith(OWNER)]
    assert len(files) == sum(name.startswith(("left-", "right-")) for state in run.states for name in state)
