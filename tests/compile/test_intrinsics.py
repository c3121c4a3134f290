"""What kernels get from LLVM: lanes, addresses, prefetching and atomic words, each against plain Python."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numba import carray, njit, types
from numba.extending import intrinsic

from streamjoin.compile.atomics import fetch_add, publish
from streamjoin.compile.intrinsics import (
    I64,
    compress,
    count_chosen,
    element,
    lane_numbers,
    load_lanes,
    pointer,
    prefetch,
    prefetch_at,
    splat,
    store_lanes,
)

LANES = 8


@intrinsic
def _lanes_below(typing: Any, values: Any, place: Any, bound: Any, out: Any, numbers: Any) -> Any:
    """Write those of the next 8 values that are below the bound, and their lanes; returns how many."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values_, place_, bound_, out_, numbers_ = args
        kinds = signature.args
        loaded = load_lanes(builder, element(context, builder, kinds[0], values_, place_), I64, LANES)
        chosen = builder.icmp_signed("<", loaded, splat(builder, bound_, LANES))
        zero = context.get_constant(types.int64, 0)
        store_lanes(builder, compress(builder, loaded, chosen), element(context, builder, kinds[3], out_, zero))
        lanes = compress(builder, lane_numbers(I64, LANES), chosen)
        store_lanes(builder, lanes, element(context, builder, kinds[4], numbers_, zero))
        return count_chosen(builder, chosen)

    return types.int64(values, types.int64, types.int64, out, numbers), codegen


@njit
def _below(values, place, bound, out, numbers):
    return _lanes_below(values, place, bound, out, numbers)


@pytest.mark.parametrize("bound", [-100, 0, 3, 50, 100])
@pytest.mark.parametrize("place", [0, 3, 24])
def test_lanes(place: int, bound: int) -> None:
    values = np.random.default_rng(0).integers(-10, 60, 32)
    out, numbers = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    count = _below(values, place, bound, out, numbers)
    expected = [lane for lane in range(LANES) if values[place + lane] < bound]
    assert numbers[:count].tolist() == expected
    assert out[:count].tolist() == [values[place + lane] for lane in expected]


@njit
def _sum_at(address, count, ahead):
    values = carray(pointer(address), count, np.int64)
    total = 0
    for k in range(count):
        prefetch(values, k + ahead)
        prefetch_at(address + 8 * (k + ahead))
        total += values[k]
    return total


@pytest.mark.parametrize("ahead", [0, 16, 10**9])
def test_addresses_and_prefetching_beyond_the_end(ahead: int) -> None:
    values = np.arange(100)
    assert _sum_at(values.ctypes.data, len(values), ahead) == values.sum()


@njit(nogil=True)
def _add_often(words, place, times):
    for _ in range(times):
        fetch_add(words, place, 1)


def test_additions_of_several_threads_are_not_lost() -> None:
    words = np.zeros(3, np.int64)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: _add_often(words, 1, 50_000), range(4)))
    assert words.tolist() == [0, 200_000, 0]
    publish(words, 2, 7)
    assert words.tolist() == [0, 200_000, 7]
