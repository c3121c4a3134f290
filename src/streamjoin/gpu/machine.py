"""The one GPU of this process: memory, copies and launches. All that is known of Numba's interface is here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ..arrays import Array
from ..compile.cache import imported
from .support import is_simulated

ROOM = 1 << 20
"""Pairs of one launch. If there are more, it is done again in pieces."""


class Outbox:
    """Where a launch writes its pairs: `memory[0]` counts the pairs of all launches so far, `total` says how many."""

    def __init__(self, machine: Machine, room: int) -> None:
        self.memory = machine.memory(room + 1, np.int64)
        self.pinned = machine.pinned(8 * (room + 1)).view(np.int64)
        self.room, self.total = room, 0
        stream = machine.stream()
        machine.put(self.memory, 0, np.zeros(1, np.int64), stream)
        machine.wait(stream)


class Machine(Protocol):
    """What scans ask of a GPU. Arrays in its memory are only handed on to `launch` and to the copies here."""

    name: str

    def memory(self, count: int, dtype: Any) -> Any:
        """An array in the GPU's memory."""

    def pinned(self, size: int) -> Array:
        """Bytes of main memory that are copied fast."""

    def stream(self) -> Any:
        """A queue of copies and launches, which are done one after the other."""

    def parts(self, memory: Any, places: list[tuple[int, int, Any]]) -> list[Any]:
        """Arrays inside an array of bytes: where each begins, how many values it has, and of which type."""

    def put(self, memory: Any, start: int, values: Array, stream: Any) -> None:
        """Begin to copy values into an array, from a place on. They must not change before the stream is waited for."""

    def copied(self, memory: Any, count: int, stream: Any) -> Any:
        """A longer array that begins with the values that the array has once the stream has come so far."""

    def after(self, stream: Any, earlier: Any) -> None:
        """What a stream is given from now on waits for all that the earlier one has been given."""

    def wait(self, stream: Any) -> None:
        """Wait for all that a stream has to do."""

    def send(self, memory: Any, pinned: Array, size: int, stream: Any) -> None:
        """Begin to copy bytes to the beginning of an array."""

    def fetch(self, pinned: Array, memory: Any, size: int, stream: Any) -> None:
        """Copy bytes from the beginning of an array, once the stream has come so far, and wait for them."""

    def launch(self, source: str, name: str, blocks: int, threads: int, stream: Any, arguments: list[Any]) -> None:
        """Begin to run a kernel."""


class Outboxes:
    """Outboxes that are not in use; all windows share them."""

    def __init__(self) -> None:
        self._spare: list[Outbox] = []
        self._lock = threading.Lock()

    def take(self, machine: Machine, room: int) -> Outbox:
        with self._lock:
            for place, outbox in enumerate(self._spare):
                if outbox.room == room:
                    return self._spare.pop(place)
        return Outbox(machine, room)

    def give(self, outbox: Outbox) -> None:
        with self._lock:
            self._spare.append(outbox)


OUTBOXES = Outboxes()


class NumbaMachine:
    """The first GPU that Numba finds, through Numba's interface alone. That is all that its simulator has.

    Numba-CUDA does not stand several threads that load or launch kernels at once. So one of them calls it at a time;
    they wait for the GPU without the lock.
    """

    def __init__(self) -> None:
        if not hasattr(np, "row_stack"):  # Numba-CUDA 0.30 asks for it, NumPy 2.5 has dropped it
            setattr(np, "row_stack", np.vstack)  # noqa: B010
        from numba import cuda
        from numba.cuda.cudadrv import driver

        self._cuda: Any = cuda
        self._driver: Any = driver
        self._config: Any = _settings()
        self._lock = threading.RLock()
        self._kernels: dict[str, Any] = {}
        self.name = "Numba's simulator" if is_simulated() else self._name()

    def _name(self) -> str:
        name = self._cuda.get_current_device().name
        return name.decode() if isinstance(name, bytes) else str(name)

    @contextmanager
    def _calls(self) -> Iterator[None]:
        """Everybody else waits. A thread's first call makes it known to the GPU."""
        with self._lock:
            self._cuda.current_context()
            yield

    def memory(self, count: int, dtype: Any) -> Any:
        with self._calls():
            return self._cuda.device_array(max(count, 1), dtype)

    def pinned(self, size: int) -> Array:
        with self._calls():
            return np.asarray(self._cuda.pinned_array(size, np.uint8))

    def stream(self) -> Any:
        with self._calls():
            return self._cuda.stream()

    def parts(self, memory: Any, places: list[tuple[int, int, Any]]) -> list[Any]:
        with self._calls():
            return [memory[start : start + count * np.dtype(kind).itemsize].view(kind) for start, count, kind in places]

    def put(self, memory: Any, start: int, values: Array, stream: Any) -> None:
        values = np.ascontiguousarray(values)
        with self._calls():
            self._driver.host_to_device(memory[start:], values, values.nbytes, stream=stream)

    def wait(self, stream: Any) -> None:
        with self._calls():
            pass
        stream.synchronize()

    def copied(self, memory: Any, count: int, stream: Any) -> Any:
        self.wait(stream)
        with self._calls():
            longer = self._cuda.device_array(count, memory.dtype)
            longer[: len(memory)].copy_to_device(memory)
            return longer

    def after(self, stream: Any, earlier: Any) -> None:
        self.wait(earlier)

    def send(self, memory: Any, pinned: Array, size: int, stream: Any) -> None:
        with self._calls():
            self._driver.host_to_device(memory, pinned, size, stream=stream)

    def fetch(self, pinned: Array, memory: Any, size: int, stream: Any) -> None:
        with self._calls():
            self._driver.device_to_host(pinned, memory, size, stream=stream)
        stream.synchronize()

    def launch(self, source: str, name: str, blocks: int, threads: int, stream: Any, arguments: list[Any]) -> None:
        with self._calls():
            settings, kernel = self._config, self._loaded(source, name)
            warns, settings.CUDA_LOW_OCCUPANCY_WARNINGS = settings.CUDA_LOW_OCCUPANCY_WARNINGS, 0
            try:
                kernel[blocks, threads, stream](*arguments)
            finally:
                settings.CUDA_LOW_OCCUPANCY_WARNINGS = warns

    def _loaded(self, source: str, name: str) -> Any:
        """Numba's function for a kernel; it is compiled at its first launch."""
        if source not in self._kernels:
            self._kernels[source] = imported(source, name)
        return self._kernels[source]


def _settings() -> Any:
    """Numba-CUDA's settings; those of Numba where it has none of its own."""
    try:
        from numba.cuda.core import config
    except ImportError:
        from numba.core import config
    return config
