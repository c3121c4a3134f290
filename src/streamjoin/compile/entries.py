"""Entries: compiled functions that threads call by address, with a block of arguments and the number of a part.

An entry is a compiled function of three integers: the address of its block, the part, and the address of the *slot*,
memory that belongs to one worker while it does the part. It returns `tasks.DONE`, `MORE` (it has worked for long: call
it again with the same part), or `FULL` (the slot must be emptied before it can go on with this part). A function that
fails returns 0, which is none of them.

    block       what all parts share: addresses, numbers
    slot        what a part leaves: its state, where its pairs go
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .intrinsics import I64

_SIGNATURE = types.int64(types.int64, types.int64, types.int64)


_KNOWN: dict[Any, int] = {}


def address_of_entry(function: Any) -> int:
    """Where the machine code of an entry lies; it is compiled if there is none yet. 0: it is not compiled at all, as in
    tests that run kernels as Python."""
    address = _KNOWN.get(function)
    if address is None:
        if not hasattr(function, "overloads"):
            return 0
        function.compile(_SIGNATURE)
        found = function.overloads[_SIGNATURE.args]
        address = _KNOWN[function] = int(found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name))
    return address


@intrinsic
def call_entry(typing: Any, address: Any, block: Any, part: Any, slot: Any) -> Any:
    """Call the entry at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(I64, [I64, I64, I64]).as_pointer()
        return builder.call(builder.inttoptr(args[0], kind), list(args[1:]))

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen
