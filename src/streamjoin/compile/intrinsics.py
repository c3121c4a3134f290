"""What LLVM can do and Numba cannot say: vectors of lanes, prefetching, addresses.

The first half has building blocks for the bodies of intrinsics (`codegen` functions): they take a builder and return
LLVM values. The second half has intrinsics that kernels call.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I1, I8, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))


# -- building blocks ---------------------------------------------------------------------------------------------------


def llvm_function(builder: Any, name: str, result: Any, *parameters: Any) -> Any:
    """One of LLVM's own functions."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, parameters), name)


def element(context: Any, builder: Any, array_type: Any, array: Any, place: Any) -> Any:
    """Where array[place] lies."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [place])


def load_lanes(builder: Any, pointer: Any, kind: Any, lanes: int) -> Any:
    """The next `lanes` values of a kind, as one vector."""
    return builder.load(builder.bitcast(pointer, ir.VectorType(kind, lanes).as_pointer()), align=kind.width // 8)


def store_lanes(builder: Any, vector: Any, pointer: Any) -> None:
    """Write a vector to neighbouring places."""
    builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer()), align=vector.type.element.width // 8)


def splat(builder: Any, value: Any, lanes: int) -> Any:
    """A vector that has the value in every lane."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


def lane_numbers(kind: Any, lanes: int) -> Any:
    """The vector 0, 1, 2, ..."""
    return ir.Constant(ir.VectorType(kind, lanes), list(range(lanes)))


def compress(builder: Any, values: Any, chosen: Any) -> Any:
    """The values of the chosen lanes, one behind the other: one instruction with AVX-512, scalar code elsewhere."""
    kind, lanes = values.type, values.type.count
    name = f"llvm.experimental.vector.compress.v{lanes}i{kind.element.width}"
    function = llvm_function(builder, name, kind, kind, ir.VectorType(I1, lanes), kind)
    return builder.call(function, [values, chosen, ir.Constant(kind, ir.Undefined)])


def count_chosen(builder: Any, chosen: Any) -> Any:
    """How many lanes are chosen, as 64 bits."""
    bits = ir.IntType(chosen.type.count)
    popcount = llvm_function(builder, f"llvm.ctpop.i{bits.width}", bits, bits)
    return builder.zext(builder.call(popcount, [builder.bitcast(chosen, bits)]), I64)


def _prefetch(builder: Any, pointer: Any) -> None:
    function = llvm_function(builder, "llvm.prefetch.p0", ir.VoidType(), cgutils.voidptr_t, I32, I32, I32)
    builder.call(function, [pointer, ir.Constant(I32, 0), ir.Constant(I32, 3), ir.Constant(I32, 1)])


# -- for kernels -------------------------------------------------------------------------------------------------------


@intrinsic
def prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Start to load array[place] into the cache; the place may lie beyond the array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = element(context, builder, signature.args[0], args[0], args[1])
        _prefetch(builder, builder.bitcast(where, cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen


@intrinsic
def prefetch_at(typing: Any, address: Any) -> Any:
    """Start to load what lies at an address into the cache."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _prefetch(builder, builder.inttoptr(args[0], cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.none(types.int64), codegen


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """An address as a pointer, for `carray`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen
