"""The GPU of this process, whose copies and launches are the driver's own calls (`gpu.driver`)."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ..arrays import Array
from .driver import Driver, PreparedKernel, Region, words_of
from .machine import Machine, NumbaMachine
from .support import LIBRARY, is_simulated


class Queue:
    """A stream of Numba's, and an event for those that wait for it. `held` is what may still be read."""

    def __init__(self, stream: Any, event: int) -> None:
        self.stream, self.handle, self.event = stream, int(stream.handle), event
        self.held: list[Array] = []


class DirectMachine(NumbaMachine):
    """The GPU that Numba finds. Numba gives memory and compiles kernels; what every step needs is asked of the driver.

    Each kernel's arguments are arrays and integers of 64 bits. One text serves arrays of several types, and has
    machine code for each set of them.
    """

    def __init__(self) -> None:
        super().__init__()
        with self._calls():
            self._direct = Driver(ctypes.CDLL(LIBRARY))
        self._prepared: dict[tuple[str, ...], PreparedKernel] = {}
        """By text and the types of the arrays."""

    def memory(self, count: int, dtype: Any) -> Any:
        found = super().memory(count, dtype)
        return Region(found, _number(found.device_ctypes_pointer), len(found), dtype)

    def stream(self) -> Any:
        return Queue(super().stream(), self._direct.event())

    def parts(self, memory: Any, places: list[tuple[int, int, Any]]) -> list[Any]:
        return [Region(memory.owner, memory.address + start, count, kind) for start, count, kind in places]

    def put(self, memory: Any, start: int, values: Array, stream: Any) -> None:
        values = np.ascontiguousarray(values)
        address = memory.address + start * memory.dtype.itemsize
        stream.held.append(values)  # the driver may or may not have read it when the call returns
        self._direct.to_gpu(address, values.ctypes.data, values.nbytes, stream.handle)

    def copied(self, memory: Any, count: int, stream: Any) -> Any:
        self.wait(stream)
        with self._calls():
            longer = self._cuda.device_array(count, memory.dtype)
            longer[: len(memory)].copy_to_device(memory.owner)
        return Region(longer, _number(longer.device_ctypes_pointer), count, memory.dtype)

    def after(self, stream: Any, earlier: Any) -> None:
        self._direct.after(stream.handle, earlier.handle, earlier.event)

    def wait(self, stream: Any) -> None:
        self._direct.wait(stream.handle)
        stream.held.clear()

    def send(self, memory: Any, pinned: Array, size: int, stream: Any) -> None:
        self._direct.to_gpu(memory.address, pinned.ctypes.data, size, stream.handle)

    def fetch(self, pinned: Array, memory: Any, size: int, stream: Any) -> None:
        self._direct.from_gpu(pinned.ctypes.data, memory.address, size, stream.handle)
        self.wait(stream)

    def launch(self, source: str, name: str, blocks: int, threads: int, stream: Any, arguments: list[Any]) -> None:
        kind = (source, *[argument.dtype.char for argument in arguments if isinstance(argument, Region)])
        kernel = self._prepared.get(kind)
        words = words_of(arguments)
        if kernel is None:
            kernel = self._prepared[kind] = self._compiled(source, name, arguments, len(words))
        self._direct.launch(kernel, blocks, threads, stream.handle, words)

    def _compiled(self, source: str, name: str, arguments: list[Any], words: int) -> PreparedKernel:
        """Numba asks values for their types; short arrays will do."""
        with self._calls():
            function = self._loaded(source, name)
            values = [self._cuda.device_array(1, a.dtype) if isinstance(a, Region) else a for a in arguments]
            found = function.compile(tuple(function.typeof_pyval(value) for value in values))
            return PreparedKernel(_number(found._codelibrary.get_cufunc().handle), words)


def _number(handle: Any) -> int:
    """The address that one of Numba's handles stands for."""
    return int(getattr(handle, "value", handle))


@cache
def machine() -> Machine:
    """The GPU of this process. `support.missing` has been asked."""
    return NumbaMachine() if is_simulated() else DirectMachine()
