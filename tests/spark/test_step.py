"""A step may be repeated: after failed attempts, by other processes, with its rows in another order."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.spark.messages import ChunkMessage, from_bytes, to_bytes
from streamjoin.spark.segments import Cache
from streamjoin.spark.side_segments import pieces
from streamjoin.store import Batch
from streamjoin.testing import assert_same_rows

from ..long import LONG
from .simulated import PREDICATES, WINDOWS, Dictionary, Simulated, cut, dealt, make_spec, stream


@pytest.mark.usefixtures("small_segments", "few_kernels")
def test_steps_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is computed again from the state before it, by processes that have seen the attempts that failed. Where
    order does not count, each worker gets the rows of a partition in an order of its own: so they come where a part
    of a batch is computed again and the streams themselves come out of a shuffle."""
    monkeypatch.setattr("streamjoin.store.side_window.LARGEST", 16)

    @settings(max_examples=1_000 if LONG else 10)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        on = rng.choice([on for on in PREDICATES if on != "TRUE"])
        window, disorder = rng.choice(WINDOWS), rng.choice([0, 5, 40])
        tables = [stream(rng, rng.choice([40, 120]), disorder) for _ in range(2)]
        ordered = any(isinstance(one, int) for one in window)
        if not ordered:
            tables = [table.set_column(0, "ts", pc.divide(table["ts"], 8)) for table in tables]  # many have the same
        spec = make_spec(
            tables[0].schema, tables[1].schema, on=on, window=window, time="ts", lateness=disorder + 4,
            workers=rng.choice([1, 2, 5]), routing=rng.choice(PREDICATES[on]), cache=str(tmp_path),
        )  # fmt: skip
        run = Simulated(spec, rng.shuffle if ordered else lambda messages: shuffle_rows(rng, messages))
        far = pa.table({"ts": [10**6], "k": [None], "v": [None], "name": [None], "tags": [None]}, tables[0].schema)
        steps = zip(*([*cut(rng, table, 6), far] for table in tables), strict=True)
        found = []
        for left, right in steps:
            batch = dealt(rng, left, 2), dealt(rng, right, 2)
            for _ in range(rng.choice([0, 0, 1, 2])):
                before = [[Dictionary(state) for state in states] for states in (run.states, run.routers)]
                run.step(*batch)
                run.states, run.routers = before
                if rng.random() < 0.3:
                    Cache.loaded.clear()  # another process
            found.append(run.step(*batch))
        want = sj.join(*tables, on=on, window=window, time="ts")
        assert_same_rows(pa.concat_tables(found), want, context=(seed, on, spec.routing, window))

    one()


def shuffle_rows(rng: random.Random, messages: list[ChunkMessage]) -> None:
    rng.shuffle(messages)
    for number, message in enumerate(messages):
        if message.body is not None:
            table = from_bytes(message.body)
            order = np.array(rng.sample(range(table.num_rows), table.num_rows))
            messages[number] = replace(message, body=to_bytes(table.take(pa.array(order))))


def test_rows_of_one_time_are_stored_together() -> None:
    """In which piece a row lies must not depend on the order of the rows."""
    rng = np.random.default_rng(0)
    for size in (1, 3, 8):
        times = np.sort(rng.integers(0, 12, 40))
        batch = Batch(np.arange(40), times, times, times, [])
        found = list(pieces(batch, size))
        assert np.concatenate([piece.row for piece in found]).tolist() == list(range(40))
        for one, other in pairwise(found):
            assert one.coordinate[-1] < other.coordinate[0]
            assert len(one) >= size
