"""Laps of the contestants of one cell, in a process that can be stopped."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from ...errors import ArgumentError
from ...reporting.measure import Others
from .cells import all_cells
from .contestants import Contestant, contestants
from .work import Cell, Sizes

WARM_ROUNDS = 3
"""The fewest rounds before the first lap."""


@dataclass
class Lap:
    """Some rounds without a pause."""

    tuples: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    counts: dict[int, int] = field(default_factory=dict)
    """The results by the number of the round, with those that only warmed up."""
    chosen: str | None = None
    others: float | None = None
    """Cores that other programs used meanwhile."""


class Stopped(Exception):
    """The contestant took too long."""


class Failed(Exception):
    """The contestant raised an error, or its process ended."""


class Bench:
    """The contestants of one cell. Each is made, filled and warmed up when its first lap begins."""

    def __init__(self, cell: Cell, sizes: Sizes, laps: int, seconds: float) -> None:
        self._cell, self._work = cell, cell.make(sizes)
        self._makers = contestants(cell, self._work)
        self._running: dict[str, tuple[Contestant, int]] = {}
        self._seconds = seconds / laps
        rounds = 1 if cell.batch is None else (len(self._work.left) - cell.window) // cell.batch
        self._most = max(rounds // (laps + 1), 1)
        """Rounds of a lap, so that all laps have as many."""

    @property
    def names(self) -> list[str]:
        return list(self._makers)

    def lap(self, name: str) -> Lap:
        """The next lap of a contestant, without any tuples if its input has ended."""
        lap = Lap()
        if name not in self._running:
            contestant = self._makers[name]()
            contestant.fill()
            self._running[name] = contestant, 0
            self._rounds(name, lap, 1 if self._cell.batch is None else WARM_ROUNDS)
            lap = Lap(counts=lap.counts)
        gc.collect()
        others = Others()
        self._rounds(name, lap, 1)
        lap.others = others.cores()
        lap.chosen = self._running[name][0].chosen
        return lap

    def _rounds(self, name: str, lap: Lap, least: int) -> None:
        contestant, number = self._running[name]
        per_round = len(self._work.left) + len(self._work.right) if self._cell.batch is None else 2 * self._cell.batch
        for done in range(max(self._most, least)):
            if done >= least and lap.seconds > self._seconds:
                break
            if (given := contestant.prepared(number)) is None:
                break
            wall, cpu = time.perf_counter(), time.process_time()
            lap.counts[number] = contestant.round(given)
            lap.seconds += time.perf_counter() - wall
            lap.cpu += time.process_time() - cpu
            lap.tuples += per_round
            number += 1
        self._running[name] = contestant, number

    def close(self) -> None:
        for contestant, _ in self._running.values():
            contestant.close()
        self._running.clear()


def _serve(connection: Connection, sizes: Sizes, laps: int, seconds: float) -> None:
    """Answer requests: a cell's name opens it, and a contestant's name runs a lap of it."""
    bench: Bench | None = None
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            what, name = connection.recv()
            try:
                if what == "lap":
                    assert bench is not None
                    connection.send(bench.lap(name))
                    continue
                if bench is not None:
                    bench.close()
                bench = None
                bench = Bench(all_cells()[name], sizes, laps, seconds)
                connection.send(bench.names)
            except ArgumentError as error:
                connection.send(error)
            except Exception as error:
                connection.send(Failed(f"{type(error).__name__}: {error}"))


class Track:
    """The process in which contestants run. It is started anew after one of them was stopped."""

    def __init__(self, sizes: Sizes, laps: int, seconds: float) -> None:
        self._arguments = sizes, laps, seconds
        self._process: Any = None
        self._connection: Any = None
        self._cell = ""

    def open(self, cell: str) -> list[str]:
        """Make the cell's inputs; the names of its contestants. ArgumentError if the inputs are not there."""
        self._cell = cell
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, *self._arguments), daemon=True)
            self._process.start()
            theirs.close()
        names: list[str] = self._ask("open", cell, None)
        return names

    def lap(self, contestant: str, limit: float) -> Lap:
        """A lap; Stopped after `limit` seconds, Failed after an error, ArgumentError if the contestant is unfit."""
        if self._process is None:
            self.open(self._cell)
        lap: Lap = self._ask("lap", contestant, limit)
        return lap

    def _ask(self, what: str, name: str, limit: float | None) -> Any:
        try:
            self._connection.send((what, name))
            if not self._connection.poll(limit):
                self.close()
                raise Stopped(f"over {limit:,.0f} s")
            answer = self._connection.recv()
        except (EOFError, BrokenPipeError):
            self.close()
            raise Failed("its process ended") from None
        if isinstance(answer, ArgumentError | Failed):
            raise answer
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def __enter__(self) -> Track:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
