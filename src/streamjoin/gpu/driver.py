"""The driver's own calls for copies and launches. They take a few microseconds each, Numba's a few tens.

Law: memory and streams are those of Numba's context, which every call makes the thread's own first.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array, Integers

_WORD, _SIZE, _NUMBER = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint
_CALLS: dict[str, tuple[Any, ...]] = {
    "cuCtxGetCurrent": (ctypes.c_void_p,),
    "cuCtxSetCurrent": (_WORD,),
    "cuEventCreate": (ctypes.c_void_p, _NUMBER),
    "cuEventRecord": (_WORD, _WORD),
    "cuGetErrorName": (ctypes.c_int, ctypes.c_void_p),
    "cuLaunchKernel": (_WORD, *[_NUMBER] * 7, _WORD, _WORD, _WORD),
    "cuMemcpyDtoHAsync_v2": (_WORD, _WORD, _SIZE, _WORD),
    "cuMemcpyHtoDAsync_v2": (_WORD, _WORD, _SIZE, _WORD),
    "cuStreamSynchronize": (_WORD,),
    "cuStreamWaitEvent": (_WORD, _WORD, _NUMBER),
}
"""The calls, and the types of their arguments: numbers, addresses and handles."""
WITHOUT_TIME = 2
"""An event that keeps no time: it is only waited for."""


class DriverError(RuntimeError):
    """A call of the driver failed."""


class Driver:
    """The calls, in the context that is current when this is made."""

    def __init__(self, library: Any) -> None:
        self._functions: dict[str, Any] = {}
        for name, arguments in _CALLS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, ctypes.c_int
            self._functions[name] = function
        context = ctypes.c_uint64(0)
        self._call("cuCtxGetCurrent", ctypes.addressof(context))
        if not context.value:
            raise DriverError("the driver has no context")
        self._context = context.value
        self._enter_context = self._functions["cuCtxSetCurrent"]
        self._lock = threading.Lock()

    def _call(self, name: str, *arguments: Any) -> None:
        code = self._functions[name](*arguments)
        if code:
            raise DriverError(f"{name} fails with {self._error(code)}")

    def _error(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._functions["cuGetErrorName"](code, ctypes.addressof(text))
        return (text.value or b"").decode() or f"error {code}"

    def enter(self) -> None:
        """Make the context the thread's own."""
        code = self._enter_context(self._context)
        if code:
            raise DriverError(f"cuCtxSetCurrent fails with {self._error(code)}")

    def to_gpu(self, address: int, source: int, size: int, stream: int) -> None:
        """Begin to copy to the GPU."""
        self.enter()
        self._call("cuMemcpyHtoDAsync_v2", address, source, size, stream)

    def from_gpu(self, target: int, address: int, size: int, stream: int) -> None:
        """Begin to copy to pinned memory."""
        self.enter()
        self._call("cuMemcpyDtoHAsync_v2", target, address, size, stream)

    def wait(self, stream: int) -> None:
        self.enter()
        self._call("cuStreamSynchronize", stream)

    def event(self) -> int:
        """An event for `after`."""
        found = ctypes.c_uint64(0)
        self.enter()
        self._call("cuEventCreate", ctypes.addressof(found), WITHOUT_TIME)
        return found.value

    def after(self, stream: int, earlier: int, event: int) -> None:
        """What a stream is given from now on waits for all that the earlier one has been given."""
        self.enter()
        self._call("cuEventRecord", event, earlier)
        self._call("cuStreamWaitEvent", stream, event, 0)

    def launch(self, kernel: PreparedKernel, blocks: int, threads: int, stream: int, words: Sequence[int]) -> None:
        """Begin to run a kernel whose arguments are these words."""
        self.enter()
        with self._lock:  # the arguments are copied before the call returns
            pointers = kernel.filled(words)
            self._call("cuLaunchKernel", kernel.handle, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, 0)


class PreparedKernel:
    """A kernel that is loaded, and memory for its arguments, which are words of 8 bytes."""

    def __init__(self, handle: int, words: int) -> None:
        self.handle = handle
        self._values: Integers = np.zeros(words, np.int64)
        self._pointers: Array = self._values.ctypes.data + 8 * np.arange(words, dtype=np.uint64)
        self._address = self._pointers.ctypes.data

    def filled(self, words: Sequence[int]) -> int:
        """Write the arguments down; returns where their addresses are."""
        self._values[:] = words
        return self._address


class Region:
    """Some values in the GPU's memory. `owner` keeps it.

    `words` is what Numba's kernels take for an array: two words for its owner, how many values it has, their size,
    where they lie, its length and its stride.
    """

    __slots__ = ("address", "count", "dtype", "owner", "words")

    def __init__(self, owner: Any, address: int, count: int, dtype: Any) -> None:
        self.owner, self.address, self.count, self.dtype = owner, address, count, np.dtype(dtype)
        size = self.dtype.itemsize
        self.words = (0, 0, count, size, address, count, size)

    def __len__(self) -> int:
        return self.count


def words_of(arguments: Sequence[Any]) -> list[int]:
    """A kernel's arguments, arrays and integers of 64 bits, as words."""
    words: list[int] = []
    for argument in arguments:
        if isinstance(argument, Region):
            words += argument.words
        else:
            words.append(argument)
    return words
