"""What `streamjoin join` does: read, join and write, a piece at a time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ..arguments import choose, meant
from ..arrow.tables import result_schema
from ..arrow.times import TimeColumns, time_columns
from ..engine import explain, join, join_batches
from ..errors import ArgumentError, StreamJoinError
from ..side import SIDES, Side
from ..window import CountWindow, lateness_ticks, parse_window
from .console import note
from .files.columns import read_types
from .files.guessing import first_that_is_no_time
from .files.in_order import TimeOrder
from .files.reading import Input, load
from .files.source import FORMATS, PIPE
from .files.text import Reading
from .files.writing import Output
from .progress import Progress, progress
from .screen import show

SHOWN = 20
"""Rows on the screen."""
_OPTIONS = ("on", "window", "time", "lateness", "how", "match", "order", "algorithm", "index", "workers", "device",
            "aliases", "suffix")  # fmt: skip


def run(arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    """Run the command. `options` are those of `streamjoin.join`, but for the suffix."""
    if arguments.left == arguments.right == PIPE:
        raise ArgumentError("right: standard input is the left input already; give a file, or - for one of them only")
    if arguments.sort and arguments.time is None:
        raise ArgumentError("--sort: rows are sorted by time; name the time column with --time")
    output = None
    if arguments.out is not None:
        output = Output("--out", arguments.out, _format(arguments.output_format, "--output-format"))
    reading = Reading(
        format=_format(arguments.format, "--format"), delimiter=_delimiter(arguments.delimiter),
        types=read_types(arguments.types, "--types"), nulls=tuple(arguments.null), time_format=arguments.time_format,
    )  # fmt: skip
    inputs = Inputs(Input("left", arguments.left, reading), Input("right", arguments.right, reading))
    for name in reading.types:
        if not any(name in data.schema.names for data in inputs.both):
            has = list(dict.fromkeys(n for data in inputs.both for n in data.schema.names))
            hint = meant(name, has)
            raise ArgumentError(f"--types: no input has a column {name!r}{hint}; there are: {', '.join(has)}")
    with spelled_as_options():
        inputs.settle_time(options["time"])
        plan = explain(*inputs.schemas, **options)
        schema = result_schema(*inputs.schemas, options["how"], arguments.suffix)
    if arguments.explain:
        print("\n".join([*inputs.described(), "", str(plan)]))
        return
    if output is not None:
        output.check_not_read([source for data in inputs.both for source in data.sources])
    _notes(options, inputs)
    with progress(inputs.both) as bar, spelled_as_options():
        results = inputs.joined({**options, "suffix": arguments.suffix}, arguments.sort, bar)
        if output is None:
            shown = arguments.limit or SHOWN
            rows, total, is_all = first_rows(results, schema, shown, arguments.limit)
        else:
            with output.opened(schema) as writer:
                total = 0
                for table in limited(results, arguments.limit):
                    writer.write(table)
                    total += table.num_rows
    if output is None:
        show(rows, total, is_all=is_all)
    elif arguments.out != PIPE:
        print(f"{arguments.out}: {total:,} row{'' if total == 1 else 's'}")


class Inputs:
    """Both inputs, and how they become results."""

    def __init__(self, left: Input, right: Input) -> None:
        self.both = (left, right)
        self._time: TimeColumns | None = None

    @property
    def schemas(self) -> tuple[pa.Schema, pa.Schema]:
        return self.both[0].schema, self.both[1].schema

    def settle_time(self, time: Any) -> None:
        """Find the time columns. One without any value is of the other's type."""
        names = (time, time) if isinstance(time, str) else time
        if names is None:
            return
        types = [s.field(name).type if name in s.names else None for s, name in zip(self.schemas, names, strict=True)]
        for data, name, own, other in zip(self.both, names, types, reversed(types), strict=True):
            if own is not None and pa.types.is_null(own):
                known = other if other is not None and not pa.types.is_null(other) else pa.int64()
                data.schema = data.schema.set(data.schema.get_field_index(name), pa.field(name, known))
            if own is not None and pa.types.is_string(own):
                raise ArgumentError(f"time: {data.argument}: the column {name!r} is text{_why_text(data, name)}")
        self._time = time_columns(*self.schemas, time)

    @property
    def counts_in_ticks(self) -> bool:
        return self._time is not None and self._time.unit == "int"

    def described(self) -> list[str]:
        lines = []
        for data in self.both:
            files = data.text if len(data.sources) == 1 else f"{data.text} ({len(data.sources)} files)"
            columns = ", ".join(f"{field.name} {field.type}" for field in data.schema)
            lines.append(f"  {data.argument:<12} {files}, {data.format}: {columns}")
        return lines

    def joined(self, options: dict[str, Any], sort: bool, bar: Progress) -> Iterator[pa.Table]:
        """Results, some at a time."""
        lateness = lateness_ticks(options["lateness"], self._time.unit if self._time else None)
        data = [self._data(side, data, sort, lateness, bar) for side, data in zip(SIDES, self.both, strict=True)]
        bar.joining()
        if options["match"] != "all" and all(isinstance(rows, pa.Table) for rows in data):
            yield join(*data, **options)  # at most one result for each left row
            return
        for batch in join_batches(*data, **options):
            bar.found(batch.num_rows)
            yield pa.Table.from_batches([batch])

    def _data(self, side: Side, data: Input, sort: bool, lateness: int, bar: Progress) -> Any:
        """A table if it fits into memory, else a reader of rows in time order."""
        if self._time is None:
            loaded = load(data.schema, data.tables(), bar.read)
            return loaded.table if loaded.table is not None else _reader(data.schema, loaded.rest)
        order = TimeOrder(side, data.text, self._time, lateness)
        loaded = load(data.schema, order.told(data.tables()), bar.read)
        if loaded.table is not None:
            return order.sorted_table(loaded.table) if sort else loaded.table
        if sort:
            return _reader(data.schema, order.checked(order.sorted_on_disk(loaded.rest)))
        return _reader(data.schema, order.checked(loaded.rest))


def _reader(schema: pa.Schema, tables: Iterator[pa.Table]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, (batch for table in tables for batch in table.to_batches()))


def _why_text(data: Input, name: str) -> str:
    """The value that made a time column text, and what to do."""
    first = next((rows.column(name) for rows in data.tables() if rows.num_rows), None)
    found = None if first is None else first_that_is_no_time(first)
    if found is None:
        return "; a time column holds timestamps, dates or integers"
    row, value = found
    if data.format in ("parquet", "arrow"):
        return f" such as {value!r}; read it as times with --types {name}=timestamp"
    return (
        f", because of values such as {value!r} in row {row:,}; write times as 2024-05-31 23:59:59.5, all with a zone "
        "or all without, or say how they are written with --time-format"
    )


def _notes(options: dict[str, Any], inputs: Inputs) -> None:
    windows = parse_window(options["window"])
    if not any(isinstance(window, CountWindow) for window in windows):
        return
    given = options["window"] if isinstance(options["window"], tuple) else [options["window"]]
    numbers = [value for value in given if isinstance(value, int)]
    if options["time"] is None:
        note("without --time, all of the left input comes before the right one, so only its last rows are met")
    elif numbers:
        spelled = " ".join(f'"{value} ticks"' if isinstance(value, int) else f'"{value}"' for value in given)
        instead = spelled if inputs.counts_in_ticks else '"2 seconds"'
        plain = " and ".join(map(str, numbers))
        what = f"{plain} of the time column's own unit" if inputs.counts_in_ticks else "a length of time"
        note(f"--window {' '.join(map(str, given))} counts rows; for {what} write --window {instead}")


def limited(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """The first rows; then the join is not asked for more."""
    left = limit
    for table in tables:
        if left is None:
            yield table
            continue
        yield table.slice(0, left)
        left -= min(left, table.num_rows)
        if not left:
            return


def first_rows(
    tables: Iterator[pa.Table], schema: pa.Schema, shown: int, limit: int | None
) -> tuple[pa.Table, int, bool]:
    """The first rows, the number of all, and whether these are all that there are."""
    kept, total = [schema.empty_table()], 0
    for table in limited(tables, None if limit is None else limit + 1):
        if total < shown:
            kept.append(table.slice(0, shown - total))
        total += table.num_rows
    is_all = limit is None or total <= limit
    return pa.concat_tables(kept), total if is_all else total - 1, is_all


@contextmanager
def spelled_as_options() -> Iterator[None]:
    """Errors that name a keyword argument name the option instead."""
    try:
        yield
    except StreamJoinError as error:
        match = re.match(rf"({'|'.join(_OPTIONS)})(\[[01]\])?: ", str(error))
        if match is None:
            raise
        raise type(error)(f"--{match[1]}: {str(error)[match.end() :]}") from None


def _format(name: str | None, argument: str) -> str | None:
    return None if name is None else choose(argument, name, FORMATS)


def _delimiter(text: str | None) -> str | None:
    plain = None if text is None else {"\\t": "\t", "tab": "\t"}.get(text, text)
    if plain is not None and (len(plain) != 1 or plain in '"\r\n'):
        raise ArgumentError(f"--delimiter: {text!r} is not valid; give one character, such as ; or \\t")
    return plain
