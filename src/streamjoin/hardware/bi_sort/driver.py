"""Runs a BI-Sort worker on arrays, with a simulated memory. It plays the manager node and the host.

The host's work costs no cycles here: between commands it writes sorted batches into the memory and reads the records.
The figures are those of the worker alone, from the cycle after it takes a command to its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...errors import ArgumentError, StateError
from ..compiled import Compiled, compiler
from ..simulator import Backend, Interpreted, Simulated
from .memory import COUNTER, ExternalMemory, check_memory
from .shape import BiSortShape
from .steps import Checked, Keys, Step, check_steps, words_to_move
from .worker import BiSortWorker, Operation, answer, command

COUNTERS = ("words_read", "words_written", "full", "refused")
COUNTED = ("busy", "splitting")
WATCH = (("answer__valid", "answer__ready"),)
FEW = 20_000
"""With fewer words to move, Amaranth's simulator ends before a compiled simulator would be built."""
PATIENCE = 64
"""A command hangs if it takes more than this many cycles per word of the memory; callers can give another limit."""


class BiSortBench(wiring.Component):
    """All that is simulated: a worker, its memory, and the host's access to the memory."""

    def __init__(self, shape: BiSortShape, latency: int = 8, bandwidth: int = 8, stalls: int = 0) -> None:
        self.worker = BiSortWorker(shape)
        self.memory = ExternalMemory(shape, latency, bandwidth, stalls)
        word = shape.word.size
        super().__init__({
            "command": In(stream.Signature(command(shape))),
            "answer": Out(stream.Signature(answer(shape))),
            "host_address": In(shape.address),
            "host_write": In(1),
            "host_data": In(word),
            "host_word": Out(word),
            **{name: Out(1) for name in COUNTED},
            **{name: Out(COUNTER) for name in COUNTERS},
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.worker, m.submodules.memory = worker, memory = self.worker, self.memory
        for asking, port in zip([*worker.read, *worker.write], [*memory.read, *memory.write], strict=True):
            wiring.connect(m, asking, port)
        wiring.connect(m, wiring.flipped(self.command), worker.command)
        wiring.connect(m, worker.answer, wiring.flipped(self.answer))
        m.d.comb += [
            getattr(memory, name).eq(getattr(self, name)) for name in ("host_address", "host_write", "host_data")
        ]
        m.d.comb += [getattr(self, name).eq(getattr(worker, name)) for name in COUNTED]
        m.d.comb += [getattr(self, name).eq(getattr(memory, name)) for name in ("host_word", *COUNTERS)]
        return m


@dataclass(frozen=True)
class Figures:
    """What one command took.

    `needed` is how many words any circuit must move: an insertion reads and writes every tuple once. For a probe it is
    the number of words moved, because that depends on the partitions. `bound` is the fewest cycles in which the memory
    can move `words`, and `least` the same for `needed`. `refused` counts how often a port had to wait, `full` the
    cycles in which all bandwidth was used, `splitting` the cycles of the search for the mergers' pieces.
    """

    operation: Operation
    count: int
    size: int
    cycles: int
    splitting: int
    words_read: int
    words_written: int
    needed: int
    bandwidth: int
    full: int
    refused: int

    @property
    def words(self) -> int:
        return self.words_read + self.words_written

    @property
    def bound(self) -> int:
        return -(-self.words // self.bandwidth)

    @property
    def least(self) -> int:
        return -(-self.needed // self.bandwidth)


@dataclass(eq=False)
class BiSortRun:
    """The results of a run. `subwindows` has the main array's keys and values, of each subwindow when it expired and of
    the last one at the end. `intervals` has the records <idstart, idend> of each probe."""

    subwindows: list[tuple[Keys, Keys]] = field(default_factory=list)
    intervals: list[Keys] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)

    @property
    def keys(self) -> Keys:
        return self.subwindows[-1][0]

    @property
    def values(self) -> Keys:
        return self.subwindows[-1][1]


def simulate_bi_sort(
    steps: Sequence[Step],
    shape: BiSortShape,
    *,
    latency: int = 8,
    bandwidth: int = 8,
    stalls: int = 0,
    simulator: Backend = "auto",
    patience: int | None = None,
) -> BiSortRun:
    """Carry out the steps on a simulated worker with an empty subwindow.

    The memory answers after `latency` cycles and moves `bandwidth` words per cycle; each of its ports is shut in
    `stalls` sixteenths of all cycles. "compiled" is worth its build for more than a few thousand tuples. A command that
    takes more than `patience` cycles raises `StateError`.
    """
    checked = check_steps(steps, shape)
    check_memory(latency, bandwidth, stalls)
    if simulator not in ("amaranth", "compiled", "auto"):
        raise ArgumentError(f"simulator is {simulator!r}; it must be 'amaranth', 'compiled' or 'auto'")
    if simulator == "auto":
        simulator = "compiled" if words_to_move(checked, shape) > FEW and compiler() is not None else "amaranth"
    host = Host(checked, shape, bandwidth, PATIENCE * (64 + shape.memory_size) if patience is None else patience)
    bench = BiSortBench(shape, latency, bandwidth, stalls)
    (Compiled if simulator == "compiled" else Interpreted)(bench, WATCH, COUNTED).run(host.drive)
    return host.run


class Host:
    """Carries out checked steps on a circuit and keeps what came out."""

    def __init__(self, steps: Sequence[Checked], shape: BiSortShape, bandwidth: int, patience: int) -> None:
        self._steps, self._shape, self._bandwidth, self._patience = steps, shape, bandwidth, patience
        self.run = BiSortRun()

    async def drive(self, circuit: Simulated) -> None:
        shape, run, size, bank = self._shape, self.run, 0, 0
        for step in self._steps:
            count = len(step.keys)
            if step.operation == Operation.CLEAR:
                await self._keep(circuit, bank, size)
            await self._load(circuit, step)
            before = self._counters(circuit)
            band = {"below": step.below, "above": step.above}
            done = await self._command(circuit, {"operation": step.operation, "count": count, "band": band})
            busy, splitting, read, written, full, refused = (
                now - old for now, old in zip(self._counters(circuit), before, strict=True)
            )
            needed = 2 * (size + count) if step.operation == Operation.INSERT else read + written
            run.figures.append(Figures(
                step.operation, count, size, busy, splitting, read, written, needed, self._bandwidth, full, refused
            ))  # fmt: skip
            size, bank = done.size, done.bank
            if step.operation == Operation.PROBE:
                words = await self._unload(circuit, shape.result_base, 2 * count)
                run.intervals.append(np.array(words, np.int64).reshape(-1, 2))
        await self._keep(circuit, bank, size)

    async def _keep(self, circuit: Simulated, bank: int, size: int) -> None:
        shape = self._shape
        tuples = [shape.unpack(word) for word in await self._unload(circuit, bank * shape.subwindow, size)]
        keys, values = np.array(tuples, np.int64).reshape(-1, 2).T
        self.run.subwindows.append((keys, values))

    @staticmethod
    def _counters(circuit: Simulated) -> list[int]:
        return [circuit.count(port) for port in COUNTED] + [circuit.get(port) for port in COUNTERS]

    async def _load(self, circuit: Simulated, step: Checked) -> None:
        shape = self._shape
        circuit.set("host_write", 1)
        for place, (key, value) in enumerate(zip(step.keys.tolist(), step.values.tolist(), strict=True)):
            circuit.set("host_address", shape.batch_base + place)
            circuit.set("host_data", shape.pack(key, value))
            await circuit.edge()
        circuit.set("host_write", 0)

    async def _unload(self, circuit: Simulated, address: int, count: int) -> list[int]:
        words = []
        for place in range(address, address + count):
            circuit.set("host_address", place)
            await circuit.edge()
            await circuit.settle()
            words.append(circuit.get("host_word"))
        return words

    async def _command(self, circuit: Simulated, given: dict[str, Any]) -> Any:
        shape = self._shape
        circuit.set("command__payload", command(shape).const(given).as_value().value)
        circuit.set("command__valid", 1)
        await circuit.settle()
        if not circuit.get("command__ready"):
            raise StateError("the worker does not take a command")
        await circuit.edge()
        circuit.set("command__valid", 0)
        circuit.set("answer__ready", 1)
        await circuit.settle(self._patience)
        if not circuit.get("answer__valid"):
            raise StateError(f"the worker has not answered {given['operation'].name} for {self._patience} cycles")
        done = answer(shape).from_bits(circuit.get("answer__payload"))
        if done.refused:
            raise StateError(f"the worker refused {given['operation'].name} of {given['count']} tuples")
        await circuit.edge()
        circuit.set("answer__ready", 0)
        return done
