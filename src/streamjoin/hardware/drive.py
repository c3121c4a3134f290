"""Feeds a handshake join tuple by tuple and takes its results: the test bench of both simulators.

Invariant: entries are offered in the order of the script. Both tuples of an entry are offered together, and the next
entry follows when both were taken. A tuple is accepted or discarded, never both. Bubbles follow the script until every
pair that can meet has met.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import StreamJoinError
from .simulator import Simulated

WATCH = (
    ("left__valid", "left__ready"),
    ("right__valid", "right__ready"),
    ("results__valid", "results__ready"),
    ("idle", "idle"),
)
COUNTED = ("suspended",)


@dataclass(frozen=True, slots=True)
class Entry:
    """Tuples that arrive together, as packed bits; None if a stream has none. They are offered from clock `at` on."""

    left: int | None
    right: int | None
    at: int = 0


NOTHING = Entry(None, None)


@dataclass(slots=True)
class Run:
    """What happened: the results as packed bits, whether each entry was accepted, and the clocks."""

    results: list[int] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)
    cycles: int = 0
    """Clocks until the last result has left and the circuit is idle."""
    entered: int = 0
    """Clocks until the last tuple of the script was taken."""
    suspended: int = 0
    """Clocks in which cores were suspended."""
    overflow: bool = False


class Hang(StreamJoinError):
    """The circuit takes nothing and gives nothing: a fault of the circuit, never of its input."""


@dataclass(slots=True)
class Feeder:
    """One run. `stall` is the probability, in each clock, that the output takes nothing. `gap` is the probability that
    the next entry comes a clock later. After `patience` clocks without progress the run ends with `Hang`."""

    script: Sequence[Entry]
    bubbles: int
    bubble: int
    stall: float = 0.0
    gap: float = 0.0
    seed: int = 0
    patience: int = 1 << 16
    run: Run = field(default_factory=Run)

    async def drive(self, circuit: Simulated) -> None:
        chance = random.Random(self.seed)
        careful = bool(self.stall or self.gap)
        run, clock, quiet, flushed = self.run, 0, 0, 0
        offered: Entry | None = None
        while True:
            script_left = len(run.accepted) < len(self.script)
            due = self.script[len(run.accepted)].at if script_left else clock
            if offered is None and clock >= due and not (self.gap and chance.random() < self.gap):
                if script_left:
                    offered = self.script[len(run.accepted)]
                elif flushed < self.bubbles:
                    offered = Entry(self.bubble, None)
            self._offer(circuit, offered or NOTHING)
            ready = not (self.stall and chance.random() < self.stall)
            circuit.set("results__ready", ready)
            ahead = 1 if careful else 64 if offered or due <= clock else min(64, due - clock)
            passed = await circuit.settle(ahead)
            clock += passed

            result = ready and bool(circuit.get("results__valid"))
            if result:
                run.results.append(circuit.get("results__payload"))
            taken = offered is not None and self._is_taken(circuit, offered)
            dropped = bool(circuit.get("discarding"))
            finished = offered is None and not script_left and flushed == self.bubbles and bool(circuit.get("idle"))
            await circuit.edge()
            clock += 1
            if finished:
                break
            if taken:
                offered = None
                if script_left:
                    run.accepted.append(not dropped)
                    run.entered = clock
                else:
                    flushed += not dropped
            waits = offered is None and clock < due
            quiet = 0 if taken or result or waits else quiet + passed + 1
            if quiet > self.patience:
                taken_of = f"{len(run.accepted)} of {len(self.script)}"
                raise Hang(f"nothing has happened for {quiet} clocks; {taken_of} entries were taken")
        run.suspended, run.overflow = circuit.count("suspended"), bool(circuit.get("overflow"))
        run.cycles = clock

    @staticmethod
    def _is_taken(circuit: Simulated, entry: Entry) -> bool:
        """Whether the entry is taken in this clock, as a whole: both inputs are ready, or none is."""
        ready = {bool(circuit.get(f"{side}__ready")) for side in ("left", "right")}
        assert len(ready) == 1, "one input is ready and the other is not"
        return ready.pop()

    @staticmethod
    def _offer(circuit: Simulated, entry: Entry) -> None:
        for side, value in (("left", entry.left), ("right", entry.right)):
            circuit.set(f"{side}__valid", value is not None)
            if value is not None:
                circuit.set(f"{side}__payload", value)
