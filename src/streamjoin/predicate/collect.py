"""From a mask of hits to pairs: the part of a scan that does not depend on the predicate; and prefetching.

Positions of set bits are written with LLVM's vector compress (one instruction with AVX-512, scalar code elsewhere),
so a slice in which many tuples match costs little more than one in which few do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .cache import compiled

LANES = 16
_BIT, _I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))


def _vector(context: Any, builder: Any, array_type: Any, array: Any, place: Any, element: Any, count: int) -> Any:
    """Load `count` neighbouring elements of an array from `place` on."""
    data = context.make_array(array_type)(context, builder, array).data
    pointer = builder.gep(builder.bitcast(data, element.as_pointer()), [place])
    vector = ir.VectorType(element, count)
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=element.width // 8)


def _splat(builder: Any, value: Any, element: Any) -> Any:
    vector = ir.VectorType(element, LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


def _set_lanes(context: Any, builder: Any, mask_type: Any, mask: Any, place: Any, count: int) -> Any:
    loaded = _vector(context, builder, mask_type, mask, place, _I8, count)
    return builder.icmp_unsigned("!=", loaded, ir.Constant(ir.VectorType(_I8, count), None))


def _compress(context: Any, builder: Any, lanes: Any, base: Any, out_type: Any, out: Any, at: Any) -> Any:
    """out[at:] = base + the numbers of the set lanes; returns how many. Writes all 16 places."""
    numbers = ir.VectorType(_I32, LANES)
    compress = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(numbers, [numbers, ir.VectorType(_BIT, LANES), numbers]),
        f"llvm.experimental.vector.compress.v{LANES}i32",
    )
    count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I16, [_I16]), "llvm.ctpop.i16")
    ids = builder.add(_splat(builder, base, _I32), ir.Constant(numbers, list(range(LANES))))
    packed = builder.call(compress, [ids, lanes, ir.Constant(numbers, ir.Undefined)])
    pointer = builder.gep(context.make_array(out_type)(context, builder, out).data, [at])
    builder.store(packed, builder.bitcast(pointer, numbers.as_pointer()), align=4)
    return builder.zext(builder.call(count, [builder.bitcast(lanes, _I16)]), _I64)


@intrinsic
def _any_of_64(typing: Any, mask: Any, place: Any) -> Any:
    """Whether any of mask[place : place + 64] is set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = _set_lanes(context, builder, signature.args[0], *args, 64)
        return builder.icmp_unsigned("!=", builder.bitcast(lanes, _I64), ir.Constant(_I64, 0))

    return types.boolean(mask, types.int64), codegen


@intrinsic
def _append_16(typing: Any, mask: Any, place: Any, base: Any, out: Any, at: Any) -> Any:
    """Append base + k to out for each set mask[place + k], k < 16; returns how many."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask_, place_, base_, out_, at_ = args
        lanes = _set_lanes(context, builder, signature.args[0], mask_, place_, LANES)
        return _compress(context, builder, lanes, base_, signature.args[3], out_, at_)

    return types.int64(mask, types.int64, types.int32, out, types.int64), codegen


@intrinsic
def _append_16_inside(
    typing: Any, mask: Any, place: Any, base: Any, out: Any, at: Any, coordinate: Any, low: Any, width: Any
) -> Any:
    """The same, for those with low <= coordinate < low + width only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask_, place_, base_, out_, at_, coordinate_, low_, width_ = args
        lanes = _set_lanes(context, builder, signature.args[0], mask_, place_, LANES)
        where = _vector(context, builder, signature.args[5], coordinate_, place_, _I64, LANES)
        distance = builder.sub(where, _splat(builder, low_, _I64))
        inside = builder.icmp_unsigned("<", distance, _splat(builder, width_, _I64))
        return _compress(context, builder, builder.and_(lanes, inside), base_, signature.args[3], out_, at_)

    parameters = (mask, types.int64, types.int32, out, types.int64, coordinate, types.int64, types.uint64)
    return types.int64(*parameters), codegen


@compiled
def collect(mask, probe, begin, coordinate, low, high, out_probe, out_stored, found, density):
    """Append (probe, begin + j) for each set mask[j] with low <= coordinate[j] < high; returns the new count.

    `mask` is scratch of a multiple of 64 places; the outputs are overwritten up to 16 places beyond the mask's hits.
    `density` only matters for speed: 0 expects hardly any hits, 1 some, 2 many.
    """
    size = len(coordinate)
    if high <= low:
        return found
    for j in range(size, (size + 63) & ~63):
        mask[j] = False
    end = found
    if density == 1:
        for j in range(0, size, 16):
            end += _append_16(mask, j, np.int32(begin + j), out_stored, end)
    elif density == 0:
        for group in range(0, size, 64):
            if _any_of_64(mask, group):
                for j in range(group, min(group + 64, size), 16):
                    end += _append_16(mask, j, np.int32(begin + j), out_stored, end)
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
        hits = end
        end = found
        for k in range(found, hits):
            j = out_stored[k]
            where = coordinate[j - begin]
            out_stored[end] = j
            end += (where >= low) & (where < high)
    for k in range(found, end):
        out_probe[k] = probe
    return end


@intrinsic
def prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Ask for array[place] to be brought into the cache; the place may lie beyond the array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), cgutils.voidptr_t)
        i32 = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32]),
            "llvm.prefetch.p0",
        )
        builder.call(function, [pointer, ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen
