"""Results are gathered in several pieces and by several tasks; what comes out is what was asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.payload import Payload, gathered
from streamjoin.payload.gather import SEGMENT
from streamjoin.tasks import one_after_another

from .. import constants

LENGTHS = [0, 1, 15, 16, 17, 63, 64, 65, 200]
SCHEMA = pa.schema(
    {
        "byte": pa.int8(), "short": pa.int16(), "int": pa.int32(), "long": pa.int64(), "flag": pa.bool_(),
        "decimal": pa.decimal128(20, 2), "wide": pa.decimal256(50, 2), "text": pa.string(),
        "long text": pa.large_binary(), "kind": pa.dictionary(pa.int8(), pa.string()),
    }
)  # fmt: skip


def table(count: int, seed: int, nulls: bool) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = [int(n) for n in rng.integers(0, 100, count)]
    content = {
        "byte": numbers, "short": numbers, "int": numbers, "long": numbers, "flag": [n % 3 == 0 for n in numbers],
        "decimal": [Decimal(n) / 4 for n in numbers], "wide": [Decimal(n) * 10**40 for n in numbers],
        "text": [chr(65 + n % 26) * LENGTHS[n % 9] for n in numbers],
        "long text": [bytes([n]) * LENGTHS[n % 7] for n in numbers], "kind": [str(n % 5) for n in numbers],
    }  # fmt: skip
    gone = {name: rng.random(count) < (0.2 if nulls else 0) for name in SCHEMA.names}
    columns = [
        pa.array([None if g else value for value, g in zip(content[name], gone[name], strict=True)])
        .cast(SCHEMA.field(name).type)
        for name in SCHEMA.names
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_pieces_and_tasks(nulls: bool, absent: bool, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, PART_ROWS=64)
    if streamed:
        constants.replace(monkeypatch, STREAMED_ROWS=0, SMALL_BUFFER=-1)
    kept, whole = Payload(SCHEMA, one_after_another), table(300, 1, nulls)
    kept.append(whole.slice(0, 7))
    kept.append(whole.slice(7))
    lines = [*whole.to_pylist(), dict.fromkeys(SCHEMA.names)]
    rng = np.random.default_rng(2)
    with ThreadPoolExecutor(2) as pool:
        for sizes in ([], [0], [1], [63, 1, 0, 65], [64, 64], [128], [1] * 70, [500, 3, 4000, 129]):
            pieces = [rng.integers(-1 if absent else 0, 300, size) for size in sizes]
            others = [piece[::-1].copy() for piece in pieces]
            columns = gathered(
                [kept, kept],
                [pieces, others],
                lambda tasks: [future.result() for future in [pool.submit(task) for task in tasks]],
            )
            for side, arrays in enumerate((pieces, others)):
                rows = [int(row) for piece in arrays for row in piece]
                own = columns[side * len(SCHEMA) : (side + 1) * len(SCHEMA)]
                found = pa.Table.from_arrays(own, schema=SCHEMA)
                found.validate(full=True)
                assert found.to_pylist() == [lines[row] for row in rows]
            some = kept.take(np.concatenate([*pieces, np.empty(0, np.int64)]), ["kind", "text", "flag"])
            assert some.equals(pa.Table.from_arrays(columns[: len(SCHEMA)], schema=SCHEMA).select(some.column_names))


@given(st.lists(st.lists(st.integers(-1, 2 * SEGMENT - 1), max_size=9), max_size=6))
def test_any_pieces(pieces: list[list[int]]) -> None:
    numbers = pa.array(np.arange(2 * SEGMENT))
    kept = Payload(pa.schema({"n": pa.int64(), "b": pa.bool_(), "s": pa.string()}), one_after_another)
    evens = pa.array(np.arange(2 * SEGMENT) % 2 == 0)
    kept.append(pa.table({"n": numbers, "b": evens, "s": numbers.cast(pa.string())}))
    n, b, s = gathered([kept], [[np.array(piece, np.int64) for piece in pieces]], one_after_another)
    rows = [row for piece in pieces for row in piece]
    assert n.to_pylist() == [None if row < 0 else row for row in rows]
    assert b.to_pylist() == [None if row < 0 else row % 2 == 0 for row in rows]
    assert s.to_pylist() == [None if row < 0 else str(row) for row in rows]


@pytest.mark.parametrize("type_", [pa.int64(), pa.string(), pa.list_(pa.int64())], ids=str)
def test_rows_that_are_gone_are_refused(type_: pa.DataType) -> None:
    kept = Payload(pa.schema({"a": type_}), one_after_another)
    kept.append(pa.table({"a": pa.nulls(SEGMENT + 5, type_)}))
    kept.release(SEGMENT + 1)
    assert kept.take(np.array([SEGMENT + 1, -1])).num_rows == 2
    for gone in (0, SEGMENT - 1):
        with pytest.raises(IndexError, match="released"):
            kept.take(np.array([-1, gone, SEGMENT + 1]))
    kept.release(SEGMENT + 5)
    assert kept.take(np.array([-1, -1])).column("a").null_count == 2
    with pytest.raises(IndexError, match="released"):
        kept.take(np.array([SEGMENT + 4]))


def test_rows_need_not_lie_side_by_side() -> None:
    kept = Payload(pa.schema({"a": pa.int64()}), one_after_another)
    kept.append(pa.table({"a": range(10)}))
    assert kept.take(np.arange(10)[::-2]).column("a").to_pylist() == [9, 7, 5, 3, 1]
