"""Which tuples of a batch are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.store import Batch
from streamjoin.store.batch import WORTH_TRIMMING, lasting

from .. import constants

NUMBERS = st.integers(-5, 15)


def batch(coordinates: list[int], low: list[int] | None = None, high: list[int] | None = None) -> Batch:
    where = np.array(coordinates, np.int64)
    ends = [where if values is None else np.array(values, np.int64) for values in (low, high)]
    return Batch(np.arange(len(where)), where, ends[0], ends[1], [2 * where, 3 * where])


@given(
    st.lists(NUMBERS, max_size=8), st.one_of(st.none(), NUMBERS),
    st.one_of(st.none(), st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4)),
)  # fmt: skip
def test_what_can_be_met_is_stored(where: list[int], floor: int | None, windows: Any) -> None:
    """By later tuples from the floor on, by those of the same step in their windows."""
    probing = (
        None if windows is None else batch([0] * len(windows), *zip(*windows, strict=True)) if windows else batch([])
    )
    with pytest.MonkeyPatch.context() as patch:
        constants.replace(patch, WORTH_TRIMMING=0)
        stored = lasting(batch(where), floor, probing)
    rows = set(stored.row.tolist())
    for row, coordinate in enumerate(where):
        is_met = floor is None or coordinate >= floor or any(low <= coordinate < high for low, high in windows or ())
        assert row in rows or not is_met
    np.testing.assert_array_equal(stored.coordinate, np.array(where, np.int64)[stored.row])
    np.testing.assert_array_equal(stored.slots[1], 3 * stored.coordinate)


@pytest.mark.parametrize("kept", [0, 1, 100])
def test_few_stored_tuples_do_not_hold_on_to_the_batch(kept: int) -> None:
    count = 4 * WORTH_TRIMMING
    whole = batch(list(range(count)))
    stored = lasting(whole, count - kept, None)
    assert stored.coordinate.tolist() == list(range(count - kept, count))
    assert not any(np.shares_memory(stored.slots[k], whole.slots[k]) for k in range(2))
