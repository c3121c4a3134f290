"""The payload gives back what it was given, whatever the types, the batches and what has been released."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin import DataError
from streamjoin.payload.gather import SEGMENT
from streamjoin.payload.payload import Payload
from streamjoin.tasks import Job
from streamjoin.testing import hard_values

from .. import constants

TYPES = [
    pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(),
    pa.date32(), pa.date64(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.time32("s"), pa.duration("ms"),
    pa.decimal128(38, 10), pa.decimal256(40, 2), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
    pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.int32()), pa.struct({"a": pa.int32()}),
    pa.null(),
]  # fmt: skip


def run_all(tasks: list) -> list:
    return [task() for task in tasks]


def column(type_: pa.DataType, count: int, rng: np.random.Generator, nulls: bool) -> pa.Array:
    if pa.types.is_null(type_):
        return pa.nulls(count)
    numbers = rng.integers(0, 100, count)
    if pa.types.is_boolean(type_):
        values: list = [bool(n % 2) for n in numbers]
    elif pa.types.is_list(type_):
        values = [[int(n)] * int(n % 4) for n in numbers]
    elif pa.types.is_struct(type_):
        values = [{"a": int(n)} for n in numbers]
    elif pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        values = [bytes([n % 250]) * int(n % 9) for n in numbers]
    elif "string" in str(type_):
        values = ["é" * int(n % 7) + str(n) * int(n % 3) for n in numbers]
    elif pa.types.is_floating(type_):
        values = [np.float16(n / 4) if type_ == pa.float16() else n / 4 for n in numbers]
    elif pa.types.is_decimal(type_):
        array = pa.array([int(n) for n in numbers], pa.int64()).cast(type_)
        return with_nulls(array, rng) if nulls else array
    else:
        array = pa.array(numbers.astype(np.int32), pa.int32())
        width = type_.bit_width
        array = array.cast({8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[width])
        array = (
            array.view(type_)
            if not pa.types.is_date64(type_)
            else pa.array(numbers, pa.int32()).cast(pa.date32()).cast(type_)
        )
        return with_nulls(array, rng) if nulls else array
    if nulls:
        values = [None if rng.random() < 0.2 else value for value in values]
    return pa.array(values, type_ if not pa.types.is_dictionary(type_) else pa.string()).cast(type_)


def with_nulls(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    return pa.array([None if rng.random() < 0.2 else value for value in array.to_pylist()], array.type)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("nulls", [False, True])
def test_every_type(type_: pa.DataType, nulls: bool) -> None:
    rng = np.random.default_rng(3)
    schema = pa.schema({"a": type_, "n": pa.int64()})
    kept = Payload(schema, run_all)
    tables = []
    for count in (5, 1, 40, 3):
        table = pa.table([column(type_, count, rng, nulls), pa.array(range(count), pa.int64())], schema=schema)
        tables.append(table)
        kept.append(table.slice(1) if count > 3 else table)
        tables[-1] = table.slice(1) if count > 3 else table
    whole = pa.concat_tables(tables).to_pylist()
    rows = rng.integers(-1, len(whole), 200)
    found = kept.take(rows).to_pylist()
    assert found == [{"a": None, "n": None} if row < 0 else whole[row] for row in rows]
    assert kept.take(rows, ["a"]).column_names == ["a"]
    assert kept.take(rows[:0]).schema == schema
    assert kept.take(np.full(3, -1)).column("a").null_count == 3


@pytest.mark.parametrize("type_", [pa.int64(), pa.float64(), pa.string(), pa.timestamp("us")], ids=str)
def test_hard_values(type_: pa.DataType) -> None:
    values = hard_values(type_)
    table = pa.table({"a": values})
    kept = Payload(table.schema, run_all)
    kept.append(table)
    found = kept.take(np.arange(len(values))).column("a").combine_chunks()
    assert found.equals(values) or [repr(x) for x in found.to_pylist()] == [repr(x) for x in values.to_pylist()]


@given(st.lists(st.integers(1, 3 * SEGMENT), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_segments_and_release(sizes: list[int], seed: int) -> None:
    """Rows far apart, in several segments, some of them released."""
    rng = np.random.default_rng(seed)
    schema = pa.schema({"n": pa.int64(), "s": pa.string(), "c": pa.dictionary(pa.int32(), pa.string())})
    kept = Payload(schema, run_all)
    end = floor = 0
    for size in sizes:
        numbers = np.arange(end, end + size)
        texts = pa.array(numbers).cast(pa.string())
        kept.append(pa.table([pa.array(numbers), texts, texts.dictionary_encode()], schema=schema))
        end += size
        floor = int(rng.integers(floor, end + 1))
        kept.release(floor)
        rows = rng.integers(max(floor, kept.first), end, 50) if max(floor, kept.first) < end else np.empty(0, np.int64)
        found = kept.take(rows)
        assert found["n"].to_pylist() == rows.tolist()
        assert found["s"].to_pylist() == [str(row) for row in rows]
        assert found["c"].to_pylist() == [str(row) for row in rows]
        assert kept.rows <= end - floor + SEGMENT


def test_texts_that_fill_more_than_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, LONGEST_TEXTS=10)
    table = pa.table({"s": ["abcd", "", "efghij", None, "klm", "no"]})
    kept = Payload(table.schema, run_all)
    kept.append(table)
    found = kept.take(np.array([0, 1, 2, 3, 4, 5, 2, 0])).column("s")
    assert found.num_chunks > 2
    assert found.to_pylist() == ["abcd", "", "efghij", None, "klm", "no", "efghij", "abcd"]


def test_a_text_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, LENGTH_BITS=3)
    kept = Payload(pa.schema({"s": pa.string()}), run_all)
    kept.check(pa.table({"s": ["1234567", None]}), "push_left")
    with pytest.raises(DataError, match="push_left: column 's' holds a text of 8 bytes"):
        kept.check(pa.table({"s": ["1", "12345678"]}), "push_left")


def test_chunks_across_segments() -> None:
    """Columns whose chunks end at different rows, some of them empty, with NULLs on both sides of a segment's end."""
    count = SEGMENT + 40
    numbers = [None if i % 7 == 3 and i > SEGMENT - 20 else i for i in range(count)]
    whole = {
        "n": pa.array(numbers, pa.int64()),
        "b": pa.array([None if n is None else n % 3 == 0 for n in numbers], pa.bool_()),
        "s": pa.array([None if n is None else f"text {n}" for n in numbers], pa.string()),
        "l": pa.array([None if n is None else str(n) for n in numbers], pa.large_string()),
    }
    cuts = {
        "n": (0, 5, SEGMENT - 9, count),
        "b": (0, SEGMENT + 3, count),
        "s": (0, 0, 17, count, count),
        "l": (0, count),
    }
    chunked = {name: pa.chunked_array([whole[name].slice(a, b - a) for a, b in pairwise(cuts[name])]) for name in whole}
    table = pa.table(chunked)
    kept = Payload(table.schema, run_all)
    kept.append(table)
    kept.append(table.slice(SEGMENT - 30))
    rows = np.arange(SEGMENT - 25, count + 60)
    wanted = pa.concat_tables([table, table.slice(SEGMENT - 30)]).slice(SEGMENT - 25, len(rows))
    found = kept.take(rows)
    found.validate(full=True)
    assert found.equals(wanted)


def test_several_threads_settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks finds all rows, though others are still copying them."""
    is_ready, together = threading.Event(), threading.Barrier(4)
    texts = [f"a rather long text {n}" for n in range(3 * SEGMENT)]
    payload = Payload(pa.schema({"s": pa.string()}), lambda tasks: [task() for task in tasks], is_ready.is_set)
    for start in range(0, len(texts), SEGMENT):
        payload.append(pa.table({"s": texts[start : start + SEGMENT]}))
    append = payload._records.append

    def slowly(*given: Any) -> list[Job]:
        time.sleep(0.05)
        return append(*given)

    monkeypatch.setattr(payload._records, "append", slowly)
    rows, seen = np.array([0, len(texts) - 1]), []

    def ask() -> None:
        before = payload.take(rows).column(0).to_pylist()
        together.wait()
        is_ready.set()
        place = payload.text_place("s")
        seen.append((before, None if place is None else len(place.records), payload.take(rows).column(0).to_pylist()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ends = [texts[0], texts[-1]]
    assert seen == [(ends, 4, ends)] * 4  # three segments, and the end


def test_rows_that_are_not_there_need_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outer join may report rows of one stream before the other one has any."""
    monkeypatch.setattr("streamjoin.payload.taking.gather_records", None)
    schema = pa.schema([(f"c{number}", type_) for number, type_ in enumerate(TYPES)])
    table = Payload(schema, run_all, lambda: False).take(np.array([-1, -1]))
    assert table.schema == schema
    assert [column.null_count for column in table.columns] == [2] * len(TYPES)
