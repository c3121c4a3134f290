"""Walks back in time: see also the as-of joins of tables in `engine.test_replay`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.arrays import Integers
from streamjoin.predicate import plan_for
from streamjoin.predicate.expr import Column
from streamjoin.predicate.lower import Lowered, lower
from streamjoin.side import Side
from streamjoin.store.walk_back import Sorted, WalkBack

from .. import constants, interpreted

STORED, PROBING, MOST = 50, 20, 7


def tuples(x: Integers, lowered: Lowered, side: Side) -> Sorted:
    """Tuples with these values of x, and the same key."""
    exprs = [slot.expr for slot in lowered.slots[side]]
    return Sorted(np.arange(len(x)), [x if expr == Column("x", None, side, expr.type) else 0 * x for expr in exprs])


@pytest.mark.parametrize("on", ["l.x < r.x", "l.k = r.k AND l.x < r.x"])
def test_no_call_makes_more_than_so_many_comparisons(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call cannot be interrupted, and a single tuple may have millions of others to pass by."""
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, WALK_MOST=MOST)
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64())])
    lowered = lower(plan_for(on, schema, schema))
    walk, calls = WalkBack(lowered, "right"), list[int]()
    kernel: Any = walk._kernel

    def counted(*arguments: Any) -> Any:
        found = kernel(*arguments)
        calls.append(found[-1])
        return found

    monkeypatch.setattr(walk, "_kernel", counted)
    stored = tuples(np.arange(STORED) % 30, lowered, "right")
    probing = tuples(np.full(PROBING, 28), lowered, "left")
    low, high = np.zeros(PROBING, np.int64), np.full(PROBING, STORED)
    assert walk.last_partners(stored, probing, low, high, True).tolist() == [29] * PROBING  # type: ignore[union-attr]
    assert max(calls) == MOST
    assert sum(calls) == PROBING * (STORED - 29)
