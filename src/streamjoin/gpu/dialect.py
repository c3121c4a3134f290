"""The dialect of `emit` on the GPU: the functions of `ops_scalar`, compiled for it. Generated kernels import all names.

Invariant: a function gives the same bits here as on the CPU. Those that cannot (sines, powers) and those of wide
numbers are missing; `support.GPU_NAMES` says what is there. The compiler for GPUs would join a product and a sum into
one operation that rounds once; `times32` and `times64` keep products of floats apart.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np
from numba import cuda

from ..predicate import ops_scalar
from .support import GPU_NAMES, is_simulated

_made: dict[str, Any] = {"np": np}
_gpu: Any = cuda


def _for_gpu(plain: Any) -> Any:
    """The same function for the GPU. It calls its like by the same names."""
    own = types.FunctionType(plain.__code__, _made, plain.__name__, plain.__defaults__)
    own.__module__ = __name__
    return _gpu.jit(device=True)(own)


def _float_product(name: str, kind: Any) -> Any:
    if is_simulated():
        return lambda a, b: kind(a) * kind(b)
    rounded = getattr(_gpu.libdevice, name)

    def product(a, b):  # type: ignore[no-untyped-def]
        return rounded(a, b)

    return _gpu.jit(device=True)(product)


for _name in GPU_NAMES - {"True", "False"}:
    _found = getattr(ops_scalar, _name)
    _made[_name] = _for_gpu(_found.py_func) if hasattr(_found, "py_func") else _found
globals().update(_made)
times32, times64 = _float_product("fmul_rn", np.float32), _float_product("dmul_rn", np.float64)
