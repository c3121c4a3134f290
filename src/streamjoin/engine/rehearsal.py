"""The rehearsal of a join: the same code on made-up rows, so that all of it is compiled (see `compile.background`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import INT64_MAX
from ..arrow.times import TimeColumns, Times
from ..compile.background import REHEARSALS, is_first, is_rehearsing
from ..predicate.expr import walk
from ..predicate.lower import Lowered
from ..side import SIDES, Side
from ..store import Batch, PairSink, Probing, SideWindow
from ..store.costs import calibrate, note_comparison
from ..store.index_choice import HASH, SCAN, SEARCH
from ..tasks import one_after_another
from .intake import Intake
from .options import Options
from .steps import Steps

ROUNDS = (1500, 1500, 1100, 2100, 1500, 3, 2500)
"""Rows of each made-up batch. The first is joined in NumPy. Together the others fill subwindows, seal them and merge
their runs."""
WINDOW = 200
"""Ticks or rows: so that few rows meet, whatever the predicate and the user's windows are."""
COMPARED = 1024, 256
"""Rows of the left and of the right that are compared to see how long that takes."""
MEASUREMENTS = 5
UNSORTED = 4
"""The round whose rows are out of order, some of them late."""
WORKERS = 3
"""More of them call nothing else."""

OVERLAP = 5
"""Ticks by which a batch goes back behind the one before."""

_LARGEST_TIME = {"int8": 100, "uint8": 200, "int16": 30_000, "uint16": 60_000}
"""Made-up times stay below these, where the time column is narrow."""

Schemas = Mapping[Side, pa.Schema]
Run = Callable[[Options, Lowered, Schemas], None]


def _key(options: Options, lowered: Lowered, schemas: Schemas) -> tuple[Hashable, ...]:
    """All that decides which functions are called, and with which types."""
    types = tuple(str(field.type) for side in SIDES for field in schemas[side])
    slots = tuple(slot.dtype for side in SIDES for slot in lowered.slots[side])
    keys = lowered.hash_slots, str(lowered.range_keys.left), str(lowered.range_keys.right)
    computed = (*lowered.recheck, *lowered.recheck_long_text, *lowered.sides.left.read, *lowered.sides.right.read)
    nodes = [node for expr in computed for node in walk(expr)]
    functions = tuple((type(node).__name__, getattr(node, "op", ""), str(node.type)) for node in nodes)
    return (
        options.algorithm, options.index, options.device, options.workers > 1, options.needs_order,
        options.time is None, options.how, options.match, options.order, types, slots, lowered.lines,
        lowered.condition, functions, keys,
    )  # fmt: skip


def rehearse(options: Options, lowered: Lowered, schemas: Schemas) -> None:
    """Run a short join on each path that it may take, and measure what paths and comparisons cost on this machine. Each
    begins in NumPy and changes over after its first round, as the join itself will."""
    calibrate()
    paths = [options.index]
    if options.index == "auto":
        paths = [SCAN.name, SEARCH.name, *[HASH.name] * bool(lowered.hash_slots), "auto"]
    windows: Any = {side: type(window)(WINDOW) for side, window in options.windows.items()}
    short = replace(options, windows=windows, workers=min(options.workers, WORKERS))
    for path in paths:
        changes_over = threading.Event()
        steps = Steps(replace(short, index=path), lowered, schemas, changes_over.is_set)
        try:
            _run(steps, Intake(lowered, schemas, options.time), options, schemas, changes_over)
        finally:
            steps.close()
    if lowered.lines:
        note_comparison(lowered, _measured_comparison(lowered, schemas, options.time))


def rehearsed(options: Options, lowered: Lowered, schemas: Schemas, run: Run = rehearse) -> Callable[[], bool]:
    """Begin the rehearsal of a join, unless it has been rehearsed. Returns what says whether all is compiled."""
    if is_first() or is_rehearsing():
        return lambda: True
    key = run.__module__, *_key(options, lowered, schemas)
    return REHEARSALS.begin(key, lambda: run(options, lowered, schemas))


def _measured_comparison(lowered: Lowered, schemas: Schemas, time_columns: TimeColumns | None) -> float:
    """Nanoseconds that a scan takes to compare two tuples: the shortest of several times."""
    intake, batches = Intake(lowered, schemas, time_columns), dict[Side, Batch]()
    for number, (side, count) in enumerate(zip(SIDES, COMPARED, strict=True)):
        rows = np.arange(count)
        slots = intake.slots(side, made_up(schemas[side], count, np.random.default_rng(number), False), "")
        batches[side] = Batch(rows, rows, np.zeros_like(rows), np.full_like(rows, COMPARED[0]), slots.columns)
    window = SideWindow(lowered, "left", SCAN.name, one_after_another)
    window.insert(batches["left"])
    seconds = []
    for _ in range(MEASUREMENTS):
        began = time.thread_time()  # of this thread alone: it may have to wait for others, which is not meant
        for _ in window.probe(Probing(batches["right"]), PairSink()):
            pass
        seconds.append(time.thread_time() - began)
    return min(seconds) * 1e9 / (COMPARED[0] * COMPARED[1])


def _run(steps: Steps, intake: Intake, options: Options, schemas: Schemas, changes_over: threading.Event) -> None:
    begin = 0
    for number, count in enumerate(ROUNDS):
        rng = np.random.default_rng(number)  # both sides get the same rows: many predicates then have matches
        times = np.arange(begin, begin + count)
        if number == UNSORTED:
            rng.shuffle(times)
        for side in SIDES:
            rows = made_up(schemas[side], count, np.random.default_rng(number), number % 2 == 0)
            if options.time is not None:
                field = schemas[side].field(options.time.of(side))
                column = pa.array(times % _LARGEST_TIME.get(str(field.type), INT64_MAX)).cast(_whole(field.type))
                column = column.cast(field.type)
                rows = rows.set_column(rows.column_names.index(field.name), field, column)
            ticks, slots = intake.times(side, rows, ""), intake.slots(side, rows, "")
            if ticks is not None and number == UNSORTED:
                some = np.ones(count, np.bool_)
                ticks, slots = Times.of(ticks.ticks[some]), slots.where(some)
            steps.take(side, rows, ticks, slots, time.perf_counter())
        steps.advance()
        steps.gathered(1 if options.how in ("semi", "anti") else 2)
        steps.results.clear()
        steps.figures()
        changes_over.set()
        begin += max(count - OVERLAP, 1)
    steps.exercise()
    steps.finish(time.perf_counter())
    steps.gathered(1 if options.how in ("semi", "anti") else 2)


def made_up(schema: pa.Schema, count: int, rng: np.random.Generator, with_nulls: bool) -> pa.Table:
    """Rows of a schema; every eleventh value is NULL on request."""
    missing = np.arange(count) % 11 == 5
    columns = []
    for field in schema:
        numbers = rng.integers(0, 100, count)
        try:
            column = _column(field.type, numbers, missing if with_nulls and field.nullable else None)
        except (pa.ArrowException, TypeError, ValueError):
            column = pa.nulls(count, field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _column(type_: pa.DataType, numbers: Any, missing: Any) -> pa.Array:
    t = pa.types
    if t.is_boolean(type_):
        return pa.array(numbers % 2 == 0, mask=missing)
    if t.is_dictionary(type_):
        return _column(type_.value_type, numbers, missing).dictionary_encode().cast(type_)
    if t.is_struct(type_):
        fields = list(type_)
        return pa.StructArray.from_arrays([_column(f.type, numbers, missing) for f in fields], fields=fields)
    if t.is_decimal(type_):
        return pa.array(numbers % 10, mask=missing).cast(pa.decimal128(19, 0)).cast(type_)
    if t.is_integer(type_) or t.is_floating(type_):
        return pa.array(numbers, mask=missing).cast(type_)
    if t.is_temporal(type_):
        return pa.array(numbers, mask=missing).cast(_whole(type_)).cast(type_)
    texts = np.array([f"t{n}" if n % 3 else f"a text of {n}" for n in numbers], object)
    return pa.array(texts, pa.string(), mask=missing).cast(type_)


def _whole(type_: pa.DataType) -> pa.DataType:
    """The integers that a temporal type can be made from."""
    if pa.types.is_integer(type_):
        return type_
    return pa.int32() if type_.bit_width == 32 else pa.int64()
