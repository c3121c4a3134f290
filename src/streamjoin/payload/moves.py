"""Loads and stores at addresses, for kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..compile.intrinsics import I32, I64

_LINE = ir.VectorType(I64, 8)


def _loader(kind: Any, bits: int) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        """The value at an address."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)

        return kind(types.int64), codegen

    return load


byte_at, word_at = _loader(types.uint8, 8), _loader(types.uint64, 64)
number_at, short_number_at = _loader(types.int64, 64), _loader(types.int32, 32)


def _mover(bits: int) -> Any:
    @intrinsic
    def move(typing: Any, source: Any, target: Any) -> Any:
        """Copy one value from an address to an address."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = ir.IntType(bits).as_pointer()
            value = builder.load(builder.inttoptr(args[0], pointer), align=1)
            builder.store(value, builder.inttoptr(args[1], pointer), align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), codegen

    return move


move8, move16, move32, move64, move128 = (_mover(bits) for bits in (8, 16, 32, 64, 128))


@intrinsic
def stream_line(typing: Any, source: Any, target: Any) -> Any:
    """Copy a cache line to an address that begins one, past the cache: the line there need not be read first."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(builder.inttoptr(args[0], _LINE.as_pointer()), align=8)
        store = builder.store(value, builder.inttoptr(args[1], _LINE.as_pointer()), align=64)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), codegen


@intrinsic
def fence(typing: Any) -> Any:
    """What was streamed is seen by others before anything that follows."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), codegen


@intrinsic
def copy_bytes(typing: Any, source: Any, target: Any, count: Any) -> Any:
    """Copy bytes from an address to an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        there, here = (builder.inttoptr(address, cgutils.voidptr_t) for address in args[:2])
        cgutils.raw_memcpy(builder, here, there, args[2], 1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), codegen
