"""A running query in the terminal: its figures as they come, and a clean stop by a signal or after some time."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from .connectors import SPARK_ERRORS
from .progress import BatchListener, Progress, size

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK_SECONDS, REPORT_SECONDS = 1.0, 30.0
"""The time between two looks at whether the query still runs, and the longest wait for the report of its end."""


class Ended:
    """An item of the feed: the query has ended."""


class Screen:
    """Shows the figures of the last batch and of all batches.

    A terminal gets a table that stays in place; other outputs get a line for each batch.
    """

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._batches = self._rows = self._out = self._late = self._null_time = 0

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, batch: Progress) -> None:
        self._batches += 1
        self._rows += batch.rows
        self._out += batch.out
        self._late += batch.late
        self._null_time += batch.null_time
        if self._live is None:
            self.say(batch.line())
            return
        self._live.start()
        self._live.update(self._table(batch), refresh=True)

    def freeze(self) -> None:
        """What is shown stays as it is."""
        if self._live is not None:
            self._live.stop()

    def close(self, how: str) -> None:
        self.freeze()
        batches = f"{self._batches:,} batch{'es' * (self._batches != 1)}"
        without_time = f", {self._null_time:,} without a time" if self._null_time else ""
        self.say(f"{how}: {batches}, {self._rows:,} rows in, {self._out:,} out, {self._late:,} late{without_time}")

    def _table(self, batch: Progress) -> Table:
        table = Table("", "last batch", "per second", "in all", title=f"{self._name}, batch {batch.batch}")
        for column in table.columns[1:]:
            column.justify = "right"
        rows = [
            ("rows in", batch.rows, self._rows),
            ("rows out", batch.out, self._out),
            ("late", batch.late, self._late),
        ]
        if self._null_time:
            rows.append(("without a time", batch.null_time, self._null_time))
        for label, last, total in rows:
            table.add_row(label, f"{last:,}", f"{batch.per_second(last):,.0f}", f"{total:,}")
        table.add_section()
        table.add_row("windows", f"{batch.left_window:,} and {batch.right_window:,}")
        table.add_row("held", f"{batch.rows_held:,} rows, {size(batch.bytes_held)}")
        table.add_row("seconds", f"{batch.seconds:.2f}")
        table.add_row("skew", f"{batch.skew:.2f}")
        return table


@contextlib.contextmanager
def watch(spark: Any, screen: Screen, seconds: float | None) -> Iterator[Callable[[Any], int | None]]:
    """Gives a function that watches a query until its end, and returns the signal that stopped it.

    Start the query within the `with`: so no figures are missed. A second Ctrl-C does not wait for the query to stop.
    """
    feed: queue.SimpleQueue[Progress | Ended | int] = queue.SimpleQueue()
    listener = BatchListener(feed.put, lambda: feed.put(Ended()))
    spark.streams.addListener(listener)

    def on_signal(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        feed.put(number)

    def until_the_end(query: Any) -> int | None:
        before = {number: signal.signal(number, on_signal) for number in SIGNALS} if _in_main_thread() else {}
        try:
            how, stopped_by = _follow(query, feed, screen, seconds)
        except BaseException:
            screen.freeze()
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        screen.close("failed" if query.exception() else how)
        return stopped_by

    try:
        yield until_the_end
    finally:
        with contextlib.suppress(*SPARK_ERRORS, OSError):  # where Spark is no more
            spark.streams.removeListener(listener)


def _follow(query: Any, feed: Any, screen: Screen, seconds: float | None) -> tuple[str, int | None]:
    """Show all figures until the query ends. Stop it at a signal, or when the time is over."""
    deadline = None if seconds is None else time.monotonic() + seconds
    how, stopped_by = "done", None
    heard_at = time.monotonic()
    while True:
        left = LOOK_SECONDS if deadline is None else deadline - time.monotonic()
        item = None
        with contextlib.suppress(queue.Empty):
            item = feed.get(timeout=max(0.0, min(LOOK_SECONDS, left)))
        if item is not None or query.isActive:
            heard_at = time.monotonic()
        elif time.monotonic() - heard_at > REPORT_SECONDS:
            item = Ended()
        if isinstance(item, Ended):
            return how, stopped_by
        if isinstance(item, Progress):
            screen.show(item)
        if isinstance(item, int) or (deadline is not None and time.monotonic() >= deadline):
            how, deadline = "stopped", None
            stopped_by = item if isinstance(item, int) else None
            query.stop()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
