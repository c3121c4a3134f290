"""From a mask of hits to pairs: the part of a scan that does not depend on the predicate.

LLVM's vector compress (one instruction with AVX-512, scalar code elsewhere) writes the places of the hits. So a slice
in which many tuples match costs little more than one in which few do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .cache import compiled
from .intrinsics import (
    I1,
    I8,
    I32,
    I64,
    compress,
    count_chosen,
    element,
    lane_numbers,
    llvm_function,
    load_lanes,
    splat,
    store_lanes,
)

LANES = 16


def _set_lanes(context: Any, builder: Any, mask_type: Any, mask: Any, place: Any, count: int) -> Any:
    data = builder.bitcast(context.make_array(mask_type)(context, builder, mask).data, I8.as_pointer())
    loaded = load_lanes(builder, builder.gep(data, [place]), I8, count)
    return builder.icmp_unsigned("!=", loaded, ir.Constant(ir.VectorType(I8, count), None))


def _append(context: Any, builder: Any, chosen: Any, base: Any, out_type: Any, out: Any, at: Any) -> Any:
    """out[at:] = base + the numbers of the chosen lanes; returns how many. Writes all 16 places."""
    numbers = builder.add(splat(builder, base, LANES), lane_numbers(I32, LANES))
    store_lanes(builder, compress(builder, numbers, chosen), element(context, builder, out_type, out, at))
    return count_chosen(builder, chosen)


@intrinsic
def _bits_of_64(typing: Any, mask: Any, place: Any) -> Any:
    """mask[place : place + 64] as the bits of a word, the first one lowest."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(_set_lanes(context, builder, signature.args[0], *args, 64), I64)

    return types.uint64(mask, types.int64), codegen


@intrinsic
def _lowest_bit(typing: Any, word: Any) -> Any:
    """The number of the lowest bit that is set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = llvm_function(builder, "llvm.cttz.i64", I64, I64, I1)
        return builder.call(count, [args[0], ir.Constant(I1, 1)])

    return types.int64(types.uint64), codegen


@intrinsic
def _append_16(typing: Any, mask: Any, place: Any, base: Any, out: Any, at: Any) -> Any:
    """Append base + k to out for each set mask[place + k], k < 16; returns how many."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask_, place_, base_, out_, at_ = args
        lanes = _set_lanes(context, builder, signature.args[0], mask_, place_, LANES)
        return _append(context, builder, lanes, base_, signature.args[3], out_, at_)

    return types.int64(mask, types.int64, types.int32, out, types.int64), codegen


@intrinsic
def _append_16_inside(
    typing: Any, mask: Any, place: Any, base: Any, out: Any, at: Any, coordinate: Any, low: Any, width: Any
) -> Any:
    """The same, for those with low <= coordinate < low + width only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask_, place_, base_, out_, at_, coordinate_, low_, width_ = args
        lanes = _set_lanes(context, builder, signature.args[0], mask_, place_, LANES)
        where = load_lanes(builder, element(context, builder, signature.args[5], coordinate_, place_), I64, LANES)
        distance = builder.sub(where, splat(builder, low_, LANES))
        inside = builder.icmp_unsigned("<", distance, splat(builder, width_, LANES))
        return _append(context, builder, builder.and_(lanes, inside), base_, signature.args[3], out_, at_)

    parameters = (mask, types.int64, types.int32, out, types.int64, coordinate, types.int64, types.uint64)
    return types.int64(*parameters), codegen


@compiled
def collect(mask, probe, begin, coordinate, low, high, out_probe, out_stored, found, density):
    """Append (probe, begin + j) for each set mask[j] with low <= coordinate[j] < high; returns the new count.

    `mask` has a multiple of 64 places, and those behind the slice are overwritten. The outputs are overwritten up to 16
    places beyond the mask's hits. `density` only matters for speed: 0 expects hardly any hits, 1 some, 2 many.
    """
    size = len(coordinate)
    if high <= low:
        return found
    # Hardly any hits: find them one by one.
    if density == 0:
        for group in range(0, size, 64):
            hits: Any = _bits_of_64(mask, group)
            if size - group < 64:
                hits &= (np.uint64(1) << np.uint64(size - group)) - np.uint64(1)
            while hits != 0:
                j = group + _lowest_bit(hits)
                hits &= hits - np.uint64(1)
                out_probe[found] = probe
                out_stored[found] = np.int32(begin + j)
                found += (coordinate[j] >= low) & (coordinate[j] < high)
        return found
    for j in range(size, (size + 63) & ~63):
        mask[j] = False
    # Some hits: write the places of all of them first, and test their coordinates one by one afterwards.
    end = found
    if density == 1:
        for j in range(0, size, 16):
            end += _append_16(mask, j, np.int32(begin + j), out_stored, end)
    # Many hits: test 16 coordinates at once while the places are written.
    if density == 2 or (end - found) * 16 > size:
        end = found
        whole = size & ~15
        for j in range(0, whole, 16):
            end += _append_16_inside(
                mask,
                j,
                np.int32(begin + j),
                out_stored,
                end,
                coordinate,
                low,
                np.uint64(high) - np.uint64(low),
            )
        for j in range(whole, size):
            out_stored[end] = np.int32(begin + j)
            end += mask[j] & (coordinate[j] >= low) & (coordinate[j] < high)
    else:
        last = end
        end = found
        for k in range(found, last):
            j = out_stored[k]
            where = coordinate[j - begin]
            out_stored[end] = j
            end += (where >= low) & (where < high)
    for k in range(found, end):
        out_probe[k] = probe
    return end
