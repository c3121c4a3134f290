"""The driver's own calls, with a library in Python that has them: its GPU memory is main memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamjoin.gpu import direct
from streamjoin.gpu.driver import Driver, DriverError, PreparedKernel, Region, words_of


class Library:
    """As much of the driver's library as `gpu.driver` calls."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.fails: dict[str, int] = {}
        self.context = 77
        self.launched: list[tuple[int, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        found = _Call(name, self, _DOES.get(name, lambda library, *arguments: None))
        setattr(self, name, found)
        return found


class _Call:
    """A function of a library: arguments are converted to the types that were given, as ctypes does."""

    argtypes: tuple[Any, ...] = ()
    restype: Any = None

    def __init__(self, name: str, library: Library, does: Callable[..., None]) -> None:
        self._name, self._library, self._does = name, library, does

    def __call__(self, *arguments: Any) -> int:
        assert len(arguments) == len(self.argtypes), self._name
        values = [kind(argument).value for kind, argument in zip(self.argtypes, arguments, strict=True)]
        self._library.said.append(self._name)
        code = self._library.fails.get(self._name, 0)
        if not code:
            self._does(self._library, *values)
        return code


def _current(library: Library, target: int) -> None:
    ctypes.c_uint64.from_address(target).value = library.context


def _event(library: Library, target: int, flags: int) -> None:
    ctypes.c_uint64.from_address(target).value = 5


def _copy(library: Library, target: int, source: int, size: int, stream: int) -> None:
    ctypes.memmove(target, source, size)


def _name(library: Library, code: int, target: int) -> None:
    ctypes.c_char_p.from_address(target).value = b"CUDA_ERROR_OUT_OF_MEMORY" if code == 2 else None


def _launch(library: Library, kernel: int, *rest: int) -> None:
    pointers = (ctypes.c_uint64 * 9).from_address(rest[8])
    library.launched.append((kernel, *rest[:8], *(ctypes.c_int64.from_address(where).value for where in pointers)))


_DOES: dict[str, Callable[..., None]] = {
    "cuCtxGetCurrent": _current, "cuEventCreate": _event, "cuGetErrorName": _name, "cuLaunchKernel": _launch,
    "cuMemcpyDtoHAsync_v2": _copy, "cuMemcpyHtoDAsync_v2": _copy,
}  # fmt: skip


def test_calls() -> None:
    library = Library()
    driver = Driver(library)
    there, here = np.zeros(4, np.int64), np.arange(4)
    driver.to_gpu(there.ctypes.data + 8, here.ctypes.data + 16, 16, 9)
    assert there.tolist() == [0, 2, 3, 0]
    driver.from_gpu(here.ctypes.data, there.ctypes.data, 32, 9)
    assert here.tolist() == [0, 2, 3, 0]
    driver.wait(9)
    assert driver.event() == 5
    driver.after(9, 8, 5)
    assert [name for name in library.said if name != "cuCtxSetCurrent"] == [
        "cuCtxGetCurrent", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuEventCreate",
        "cuEventRecord", "cuStreamWaitEvent",
    ]  # fmt: skip
    assert library.said.count("cuCtxSetCurrent") == 5


def test_launches() -> None:
    library = Library()
    driver, kernel = Driver(library), PreparedKernel(40, 9)
    region = Region(None, 1 << 40, 6, np.int32)
    for last in (7, -2):
        driver.launch(kernel, 3, 256, 9, words_of([5, region, last]))
        assert library.launched.pop() == (40, 3, 1, 1, 256, 1, 1, 0, 9, 5, 0, 0, 6, 4, 1 << 40, 6, 4, last)


class Compiling(direct.DirectMachine):
    """Without a GPU: each kernel that is compiled gets the next number for a handle."""

    def __init__(self, library: Library) -> None:
        self._direct, self._prepared = Driver(library), {}
        self.kinds: list[list[str]] = []

    def _compiled(self, source: str, name: str, arguments: list[Any], words: int) -> PreparedKernel:
        self.kinds.append([str(a.dtype) for a in arguments if isinstance(a, Region)])
        return PreparedKernel(len(self.kinds), words)


def test_one_text_has_machine_code_for_each_set_of_types() -> None:
    """The text of a search is the same for keys of 32 and of 64 bits."""
    library = Library()
    machine, stream = Compiling(library), direct.Queue(SimpleNamespace(handle=9), 5)
    for number, kind in enumerate(["int32", "int64", "int32", "float64", "int64"]):
        region = Region(None, 1 << 40, 6, kind)
        machine.launch("text", "name", 3, 256, stream, [number, region, -1])
    assert [launched[0] for launched in library.launched] == [1, 2, 1, 3, 2]
    assert machine.kinds == [["int32"], ["int64"], ["float64"]]


def test_what_is_sent_is_kept_until_the_stream_is_waited_for() -> None:
    library = Library()
    machine, stream = Compiling(library), direct.Queue(SimpleNamespace(handle=9), 5)
    there = np.zeros(4, np.int64)
    region = Region(None, there.ctypes.data, 4, np.int64)
    machine.put(region, 1, np.arange(6)[::2], stream)
    assert there.tolist() == [0, 0, 2, 4]
    assert stream.held[0].tolist() == [0, 2, 4]
    machine.wait(stream)
    assert stream.held == []
    machine.put(region, 0, np.ones(1, np.int64), stream)
    pinned = np.zeros(32, np.uint8)
    machine.fetch(pinned, region, 32, stream)
    assert pinned.view(np.int64).tolist() == [1, 0, 2, 4]
    assert stream.held == []


def test_errors() -> None:
    library = Library()
    driver = Driver(library)
    library.fails = {"cuStreamSynchronize": 2, "cuEventRecord": 3}
    with pytest.raises(DriverError, match="cuStreamSynchronize fails with CUDA_ERROR_OUT_OF_MEMORY"):
        driver.wait(1)
    with pytest.raises(DriverError, match="cuEventRecord fails with error 3"):
        driver.after(1, 2, 3)
    library.fails = {"cuCtxSetCurrent": 3}
    with pytest.raises(DriverError, match="cuCtxSetCurrent"):
        driver.wait(1)
    library.context = 0
    with pytest.raises(DriverError, match="no context"):
        Driver(library)


def test_numbas_handles() -> None:
    assert direct._number(ctypes.c_void_p(1 << 40)) == 1 << 40
    assert direct._number(np.int64(5)) == 5
