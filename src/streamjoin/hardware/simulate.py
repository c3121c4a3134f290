"""Arrow in, Arrow out: the handshake join as a simulated circuit.

A tuple's payload is its row number, so the circuit carries whole rows of any type by their numbers, and the rows of
the result are gathered here. Invariant: the result is `join(left, right, ..., window=cores * segment)` over the tuples
that the circuit accepted; with lossless admission, over all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from amaranth.lib import data

from ..arguments import choose
from ..arrays import Array
from ..arrow.fields import read, readable
from ..arrow.tables import as_table, check_names, contiguous, restored, result_schema, takeable
from ..arrow.times import read_time, time_columns
from ..errors import ArgumentError
from ..predicate import Predicate, plan_for
from ..predicate.plan import Plan
from ..predicate.vector import read_numbers
from ..side import SIDES, Side
from .compiled import Compiled, compiler
from .design import Design, check_design
from .drive import COUNTED, WATCH, Entry, Feeder, Run
from .handshake import HandshakeCircuit
from .predicate import Circuit, circuit_of
from .simulator import Backend, Interpreted

PAYLOAD = 32
INTERPRETED_WORK = 30_000
"""Clocks times comparators. With less work, Amaranth's simulator ends before a compiled simulator would be built."""
MOST_REGISTERS, MOST_WORK = 1 << 13, 1 << 30
"""The limits of a simulation: tuples of a stream in shift registers, and clocks times comparators. Beyond them it takes
many minutes to build or to run the simulator."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Row numbers of each stream, in the order of arrival. `len` counts both streams."""

    left: list[int]
    right: list[int]

    def __len__(self) -> int:
        return len(self.left) + len(self.right)

    def __getitem__(self, side: Side) -> list[int]:
        return self.left if side == "left" else self.right


@dataclass(frozen=True, slots=True)
class Report:
    """What a run took. Fields can also be read as items: `report["cycles"]`."""

    cycles: int
    """Clocks from the first tuple until the last result has left, including the bubbles that empty the windows."""
    accepted: Rows
    discarded: Rows
    stalls: int
    """Clocks in which at least one core was suspended because a queue was full."""
    results: int
    entered: int
    """Clocks until the last tuple had entered."""
    simulator: str

    def __getitem__(self, name: str) -> Any:
        if name not in self.__slots__:
            raise KeyError(f"{name!r}; there are {', '.join(self.__slots__)}")
        return getattr(self, name)


@overload
def simulate(left: Any, right: Any, *, on: Predicate, report: Literal[False] = False, **design: Any) -> pa.Table: ...
@overload
def simulate(
    left: Any, right: Any, *, on: Predicate, report: Literal[True], **design: Any
) -> tuple[pa.Table, Report]: ...


def simulate(
    left: Any,
    right: Any,
    *,
    on: Predicate,
    time: str | tuple[str, str] | None = None,
    report: bool = False,
    aliases: Sequence[str] | None = None,
    simulator: Backend = "auto",
    interval: int | None = None,
    stall: float = 0.0,
    gap: float = 0.0,
    seed: int = 0,
    **design: Any,
) -> Any:
    """Join two tables with the simulated circuit. The windows hold `cores * segment` rows of each stream; the predicate
    reads whole-number columns only.

    `design` are the fields of `Design`: cores, segment, lanes, ram, merger, scope, admission, core_buffer,
    merger_buffer. Tuples arrive in the merged order (by time, the left one first; without `time`, all left ones first),
    `interval` clocks apart. By default they arrive as fast as the circuit takes them (lossless admission), or as fast
    as an unstalled circuit would take them ("discard"). In each clock the output takes nothing with probability
    `stall`, and an arrival is delayed with probability `gap`. With `report=True`, returns the table and a `Report`.
    """
    tables: dict[Side, pa.Table] = {"left": as_table(left, "left"), "right": as_table(right, "right")}
    for side in SIDES:
        check_names(tables[side].schema, side)
    chosen = check_design(**design)
    choose("simulator", simulator, get_args(Backend))
    for name, value in (("stall", stall), ("gap", gap)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ArgumentError(f"{name}: {value!r} is not valid; give a probability, 0 <= {name} < 1")
    if interval is not None and (isinstance(interval, bool) or not isinstance(interval, int) or interval < 0):
        raise ArgumentError(f"interval: {interval!r} is not valid; give a number of clocks, 0 or more")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ArgumentError(f"seed: {seed!r} is not valid; give a whole number")
    if not isinstance(report, bool):
        raise ArgumentError(f"report: {report!r} is not valid; give True or False")
    _check_work(chosen, tables)
    plan = plan_for(on, tables["left"].schema, tables["right"].schema, aliases)
    schema = result_schema(tables["left"].schema, tables["right"].schema, "inner")
    nullable = frozenset(
        (side, name) for side in SIDES for name in readable(tables[side].schema) if read(tables[side], name).null_count
    )
    sides, rows, times = merged_order(tables, time)
    top = circuit_for(plan, nullable, chosen)
    circuit = top.circuit
    pace = interval if interval is not None else chosen.rows if chosen.admission == "discard" else 0
    script, arrivals = _script(circuit, tables, sides, rows, times, pace)
    patience = int(64 * (chosen.rows + chosen.core_buffer + chosen.merger_buffer) / (1 - max(stall, gap)))
    feeder = Feeder(script, chosen.window, 0, stall, gap, seed, patience)
    used = run(top, feeder, simulator)
    assert not feeder.run.overflow, "a queue of the circuit overflowed"

    pairs = unpack_payloads(circuit, feeder.run)
    out = pa.Table.from_arrays(
        [*_taken(tables["left"], pairs[:, 0]).columns, *_taken(tables["right"], pairs[:, 1]).columns], schema=schema
    )
    if not report:
        return out
    figures = feeder.run
    accepted, discarded = (_fates(arrivals, figures, fate) for fate in (True, False))
    return out, Report(figures.cycles, accepted, discarded, figures.suspended, len(pairs), figures.entered, used)


def _check_work(design: Design, tables: dict[Side, pa.Table]) -> None:
    """Refuse a simulation that would take too long."""
    if not design.ram and design.window > MOST_REGISTERS:
        raise ArgumentError(
            f"segment: {design.cores} cores of {design.segment} are {design.window} tuples of a stream in registers, "
            f"and {MOST_REGISTERS} is the most that is simulated: give fewer, or ram=True"
        )
    tuples = tables["left"].num_rows + tables["right"].num_rows
    clocks = (tuples + design.window) * design.rows
    if clocks * design.cores * design.lanes > MOST_WORK:
        raise ArgumentError(
            f"segment: {tuples} tuples through {design.cores} cores of {design.segment} take {clocks:,} clocks, which "
            "takes too long: give fewer tuples, smaller segments or more lanes"
        )


def run(top: HandshakeCircuit, feeder: Feeder, simulator: Backend) -> str:
    """Run a feeder on a simulator; returns the simulator's name."""
    design = top.design
    clocks = (2 * len(feeder.script) + feeder.bubbles) * design.rows
    if simulator == "auto":
        small = clocks * design.cores * design.lanes <= INTERPRETED_WORK
        simulator = "amaranth" if small or compiler() is None else "compiled"
    if simulator == "amaranth":
        Interpreted(top, WATCH, COUNTED).run(feeder.drive)
    else:
        Compiled(top.netlist, WATCH, COUNTED).run(feeder.drive)
    return simulator


@lru_cache(maxsize=8)
def circuit_for(plan: Plan, nullable: frozenset[tuple[Side, str]], design: Design) -> HandshakeCircuit:
    """The circuit of a plan. It is cached, because its netlist takes longer to write than to run."""
    return HandshakeCircuit(circuit_of(plan, nullable, PAYLOAD), design)


def merged_order(
    tables: dict[Side, pa.Table], time: str | tuple[str, str] | None
) -> tuple[Array, Array, npt.NDArray[np.int64] | None]:
    """The side (0 or 1), row and timestamp of every tuple, in the merged order."""
    counts = [tables[side].num_rows for side in SIDES]
    sides = np.repeat([0, 1], counts)
    rows = np.concatenate([np.arange(count) for count in counts])
    columns = time_columns(tables["left"].schema, tables["right"].schema, time)
    if columns is None:
        return sides, rows, None
    ticks = np.concatenate([
        read_time(contiguous(tables[side].column(name)), columns.unit, f"{side}: time column {name!r}")
        for side in SIDES for name in (columns.of(side),)
    ])  # fmt: skip
    order = np.lexsort((rows, sides, ticks))
    return sides[order], rows[order], ticks[order]


def _script(
    circuit: Circuit, tables: dict[Side, pa.Table], sides: Array, rows: Array, times: Array | None, pace: int
) -> tuple[list[Entry], list[tuple[int | None, int | None]]]:
    """The entries to offer, and the rows of each entry. A left tuple and the next right tuple arrive together if their
    timestamps are equal."""
    packed = [pack(circuit.entering(side), column_fields(circuit, side, tables[side])) for side in SIDES]
    script: list[Entry] = []
    arrivals: list[tuple[int | None, int | None]] = []
    at = 0
    while at < len(sides):
        side, row = sides[at], rows[at]
        together = times is not None and at + 1 < len(sides) and side == 0 and sides[at + 1] == 1
        if together and times is not None and times[at] == times[at + 1]:
            pair: tuple[int | None, int | None] = (int(row), int(rows[at + 1]))
        else:
            pair = (int(row), None) if side == 0 else (None, int(row))
        bits = [None if place is None else packed[of][place] for of, place in enumerate(pair)]
        script.append(Entry(bits[0], bits[1], at * pace))
        arrivals.append(pair)
        at += sum(place is not None for place in pair)
    return script, arrivals


def column_fields(circuit: Circuit, side: Side, table: pa.Table) -> dict[str, Any]:
    """A table's columns as the fields that `pack` puts into the circuit's layout."""
    values, known = {}, {}
    for column in circuit.columns[side]:
        numbers, valid = read_numbers(contiguous(read(table, column.name)), column.type)
        values[circuit.names[column]] = numbers if valid is None else np.where(valid, numbers, 0)
        if column in circuit.nullable:
            known[circuit.names[column]] = np.ones(table.num_rows, bool) if valid is None else valid
    return {
        "occupied": np.ones(table.num_rows, np.int64),
        "values": values,
        "known": known,
        "payload": np.arange(table.num_rows),
    }


def pack(layout: data.StructLayout, fields: dict[str, Any]) -> Array:
    """Pack columns into the bits of a layout: one Python int per row."""
    total: Any = 0
    for name, field in layout:
        inner = fields[name]
        if isinstance(inner, dict):
            if not inner:
                continue
            bits = pack(field.shape, inner)
        else:
            bits = inner.astype(object) & ((1 << field.width) - 1)
        total = total + (bits << field.offset)
    return np.asarray(total, dtype=object)


def unpack_payloads(circuit: Circuit, run: Run) -> npt.NDArray[np.int64]:
    """The row numbers of every result, as two columns."""
    layout = circuit.result
    mask = (1 << circuit.payload) - 1
    shifts = [layout[side].offset + layout[side].shape["payload"].offset for side in SIDES]
    pairs = [[bits >> shift & mask for shift in shifts] for bits in run.results]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _fates(arrivals: list[tuple[int | None, int | None]], run: Run, accepted: bool) -> Rows:
    chosen = [pair for pair, fate in zip(arrivals, run.accepted, strict=True) if fate is accepted]
    return Rows([l for l, _ in chosen if l is not None], [r for _, r in chosen if r is not None])


def _taken(table: pa.Table, rows: Array) -> pa.Table:
    return restored(takeable(table).take(pa.array(rows)), table.schema)
