"""When few tuples may meet a window without the questions of an ordinary step."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.predicate import plan_for
from streamjoin.predicate.frames import Frame
from streamjoin.predicate.lower import lower
from streamjoin.store import Batch, SideWindow
from streamjoin.store.few import FewHashed, FewSearched
from streamjoin.tasks import one_after_another

from .. import constants, interpreted

SCHEMA = pa.schema([("k", pa.int64())])


def window(on: str, index: str, counts: list[int]) -> SideWindow:
    """A window of the left stream with batches of so many tuples; all but the last are indexed."""
    condition = lower(plan_for(on, SCHEMA, SCHEMA))
    found = SideWindow(condition, "left", index, one_after_another)
    start = 0
    for count in counts:
        found.prepare()
        rows = np.arange(start, start + count)
        slots = condition.sides.left.run(Frame(count, {("left", "k"): pa.array(rows % 97)}))
        found.insert(Batch(rows, rows, rows, rows, slots.columns))
        start += count
    return found


def new(count: int) -> Batch:
    """So many tuples that are to be stored."""
    rows = np.arange(count)
    return Batch(rows, rows, rows, rows, [rows])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, SMALLEST_SUBWINDOW=256, TAIL=100)


@pytest.mark.parametrize("counts", [[200, 20], [256, 20], [256, 200, 56, 20]])
def test_bands_and_equalities_have_a_way(counts: list[int]) -> None:
    assert isinstance(window("l.k BETWEEN r.k - 1 AND r.k + 1", "bi-sort", counts).few(new(10)), FewSearched)
    assert isinstance(window("l.k = r.k", "hash", counts).few(new(10)), FewHashed)


@pytest.mark.parametrize("counts", [[200, 20], [256, 20], [256, 200, 56, 20]])
def test_keys_that_may_not_hold_for_probing_tuples_have_none(counts: list[int]) -> None:
    """Such a tuple is compared with everything, also just after a subwindow was opened, which knows no key yet."""
    assert window("abs(l.k - r.k) <= 1", "bi-sort", counts).few(new(10)) is None


def test_there_is_none_without_room_or_runs() -> None:
    on = "l.k BETWEEN r.k - 1 AND r.k + 1"
    assert window(on, "bi-sort", [200, 20]).few(new(100)) is None
    assert window(on, "bi-sort", [120, 50, 60]).few(new(1)) is None, "the next step has to index"
    assert window(on, "bi-sort", [20]).few(new(1)) is None
    assert window(on, "rap-table", [200, 20]).few(new(1)) is None


def test_dropped_tuples_are_let_go() -> None:
    some = window("l.k BETWEEN r.k - 1 AND r.k + 1", "bi-sort", [256, 20])
    before = some.few(new(1))
    assert some.few(new(1)) is before
    assert some.expire(256) == 1
    assert some.few(new(1)) is None
