"""The registry is all that a window knows of its indexes: one that is added there works at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.predicate import plan_for
from streamjoin.predicate.lower import lower
from streamjoin.store import INDEXES, Batch, IndexKind, PairSink, Probing, SideWindow
from streamjoin.store.index import Index, Opening
from streamjoin.store.subwindow import Subwindow
from streamjoin.tasks import one_after_another

LOWERED = lower(plan_for("l.a = r.a", *[pa.schema([("a", pa.int32())])] * 2))
ROWS, LOW, HIGH = 40_000, 5_000, 39_000


class Backwards(Subwindow):
    """A toy: it scans its tuples in two halves, the younger one first."""

    name = "backwards"

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        batch, half = probing.mine(probing.batch), self.count // 2
        yield from self.scan(probing, batch, sink, half, self.count)
        yield from self.scan(probing, batch, sink, 0, half)


def open_backwards(opening: Opening) -> Index:
    return Backwards(opening.capacity, opening.stored)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INDEXES, "backwards", IndexKind("backwards", "nothing", open_backwards, ": backwards"))


def batch(start: int, keys: list[int]) -> Batch:
    rows = np.arange(start, start + len(keys))
    bounds = [np.full(len(keys), bound) for bound in (LOW, HIGH)]
    return Batch(rows, rows, *bounds, [np.array(keys, np.int32)])


def found(window: SideWindow, parts: int) -> list[tuple[int, int]]:
    """All pairs (probing row, stored row) that the parts of a window have."""
    probing = batch(0, [7, 8, 7, 500])
    window.expect(probing)
    window.prepare()
    pairs: list[tuple[int, int]] = []
    for share in window.shares(probing, workers=2, parts=3):
        for part in range(parts):
            sink = PairSink()
            for _ in window.probe(share, sink, part, parts):
                pass
            for left, right in zip(*sink.take(), strict=True):
                pairs += zip(left.tolist(), right.tolist(), strict=True)
    return sorted(pairs)


def test_what_the_indexes_of_the_papers_need() -> None:
    expected = {"scan": "nothing", "hash": "equality", "bi-sort": "order", "rap-table": "order", "wib-tree": "order"}
    assert [name for name in INDEXES if name in expected] == list(expected)
    assert {name: INDEXES[name].needs for name in expected} == expected


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("index", [*INDEXES, "backwards", "auto"])
def test_every_index_finds_each_pair_once(index: str, parts: int) -> None:
    window = SideWindow(LOWERED, "right", index, one_after_another)
    keys = [row % 100 for row in range(ROWS)]
    for start in range(0, ROWS, 3000):
        window.insert(batch(start, keys[start : start + 3000]))
    expected = [(p, s) for p, key in ((0, 7), (1, 8), (2, 7)) for s in range(LOW, HIGH) if s % 100 == key]
    assert found(window, parts) == expected
    figures = window.figures()
    if index == "auto":
        assert figures["index"] in figures["estimates"]
    else:
        assert figures["index"] == index
        assert set(figures["subwindows"]) == {index}
        assert (figures["key"] is not None) == (INDEXES[index].needs == "order")
    assert window.expire(10**6) > 1
    assert window.count == 0
