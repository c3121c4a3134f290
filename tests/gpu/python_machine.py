"""A GPU in plain Python: kernels run block by block, each with one thread. Fast enough for the conformance suite."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamjoin.gpu import direct
from streamjoin.gpu import machine as machines

from .. import constants, interpreted

SMALL = {"GPU_THREADS": 1, "GPU_LANES": 4, "GPU_ROOM": 40, "GPU_TILE": 8, "GPU_SMALLEST": 32, "GPU_FIRST_FETCH": 3,
    "GPU_CHUNK": 4, "GPU_SELECTIVE": 0, "GPU_STAGED": 4000, "GPU_GROUP": 2, "GPU_SHIFT": 2,
}  # fmt: skip
"""Sizes at which a handful of tuples fills several blocks and tiles, and pairs overflow."""


class PythonMachine:
    """A `gpu.machine.Machine`."""

    name = "Python"

    def __init__(self) -> None:
        self.launches = 0
        self.fails_at: int | None = None
        """The launch that fails, like all after it."""

    def memory(self, count: int, dtype: Any) -> Any:
        return np.frombuffer(np.random.default_rng(0).bytes(max(count, 1) * np.dtype(dtype).itemsize), dtype).copy()

    def pinned(self, size: int) -> Any:
        return np.empty(size, np.uint8)

    def stream(self) -> None:
        return None

    def parts(self, memory: Any, places: list[tuple[int, int, Any]]) -> list[Any]:
        return [memory[start : start + count * np.dtype(kind).itemsize].view(kind) for start, count, kind in places]

    def put(self, memory: Any, start: int, values: Any, stream: None) -> None:
        memory[start : start + len(values)] = values

    def after(self, stream: None, earlier: None) -> None:
        """All is there."""

    def wait(self, stream: None) -> None:
        """All is done."""

    def copied(self, memory: Any, count: int, stream: None) -> Any:
        longer = self.memory(count, memory.dtype)
        longer[: len(memory)] = memory
        return longer

    def send(self, memory: Any, pinned: Any, size: int, stream: None) -> None:
        memory[:size] = pinned[:size]

    def fetch(self, pinned: Any, memory: Any, size: int, stream: None) -> None:
        pinned.view(np.uint8)[:size] = memory.view(np.uint8)[:size]

    def launch(self, source: str, name: str, blocks: int, threads: int, stream: None, arguments: list[Any]) -> None:
        assert threads == 1
        self.launches += 1
        if self.fails_at is not None and self.launches >= self.fails_at:
            raise RuntimeError("the GPU has fallen off the bus")
        function, cuda = _interpreted(source, name)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            for cuda.blockIdx.x in range(blocks):
                function(*arguments)


def _add(array: Any, place: int, value: int) -> int:
    before = int(array[place])
    array[place] += value
    return before


@cache
def _interpreted(source: str, name: str) -> tuple[Any, Any]:
    cuda = SimpleNamespace(
        jit=lambda **options: lambda function: function,
        threadIdx=SimpleNamespace(x=0),
        blockIdx=SimpleNamespace(x=0),
        shared=SimpleNamespace(array=np.empty),
        syncthreads=lambda: None,
        atomic=SimpleNamespace(add=_add),
        popc=lambda bits: int(bits).bit_count(),
    )
    lines = [line for line in source.splitlines() if not line.startswith("from")]
    namespace = interpreted.dialect() | {
        "cuda": cuda, "times32": lambda a, b: np.float32(a) * np.float32(b), "times64": lambda a, b: np.float64(a) * b
    }  # fmt: skip
    exec(compile("\n".join(lines), "<interpreted kernel>", "exec"), namespace)
    return namespace[name], cuda


class Queue:
    """What a stream has to do still, and how much it has done. Each task says what has to be done before it: so much of
    another stream."""

    def __init__(self) -> None:
        self.tasks: deque[tuple[Callable[[], Any], tuple[Queue, int] | None]] = deque()
        self.done = 0

    def advance(self, until: int) -> None:
        """Do so many tasks in all, and whatever they wait for."""
        while self.done < until:
            task, earlier = self.tasks.popleft()
            if earlier is not None:
                earlier[0].advance(earlier[1])
            task()
            self.done += 1

    @property
    def end(self) -> int:
        return self.done + len(self.tasks)


class LateMachine(PythonMachine):
    """Does things when it likes: at the latest when they are waited for. It reads main memory no earlier than that."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = np.random.default_rng(seed)
        self._queues: list[Queue] = []

    def _later(self, queue: Queue, task: Callable[[], Any], earlier: tuple[Queue, int] | None = None) -> None:
        queue.tasks.append((task, earlier))
        if self._rng.random() < 0.3:
            some = self._queues[self._rng.integers(len(self._queues))]
            some.advance(int(self._rng.integers(some.done, some.end + 1)))

    def stream(self) -> Any:
        self._queues.append(Queue())
        return self._queues[-1]

    def put(self, memory: Any, start: int, values: Any, stream: Any) -> None:
        self._later(stream, partial(super().put, memory, start, values, None))

    def after(self, stream: Any, earlier: Any) -> None:
        self._later(stream, lambda: None, (earlier, earlier.end))

    def wait(self, stream: Any) -> None:
        stream.advance(stream.end)

    def copied(self, memory: Any, count: int, stream: Any) -> Any:
        self.wait(stream)
        return super().copied(memory, count, None)

    def send(self, memory: Any, pinned: Any, size: int, stream: Any) -> None:
        self._later(stream, partial(super().send, memory, pinned, size, None))

    def fetch(self, pinned: Any, memory: Any, size: int, stream: Any) -> None:
        self.wait(stream)
        super().fetch(pinned, memory, size, None)

    def launch(self, source: str, name: str, blocks: int, threads: int, stream: Any, arguments: list[Any]) -> None:
        self._later(stream, partial(super().launch, source, name, blocks, threads, None, arguments))


def install(
    monkeypatch: pytest.MonkeyPatch, machine: PythonMachine | None = None, **sizes: int
) -> PythonMachine:  # fmt: skip
    """From here on, this is the GPU."""
    found = machine or PythonMachine()
    constants.replace(monkeypatch, **(SMALL | sizes))
    monkeypatch.setattr(direct, "machine", lambda: found)
    monkeypatch.setattr(machines, "OUTBOXES", machines.Outboxes())
    monkeypatch.setattr("streamjoin.gpu.lane.OUTBOXES", machines.OUTBOXES)
    monkeypatch.setattr("streamjoin.engine.options.missing", lambda: None)
    monkeypatch.setattr("streamjoin.gpu.scan.missing", lambda: None)
    monkeypatch.setattr("streamjoin.gpu.scan.has_driver", lambda: True)
    return found
