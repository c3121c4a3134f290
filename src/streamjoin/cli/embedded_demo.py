"""`streamjoin demo`: trades and quotes, pushed in batches as they would arrive, joined while they come.

Which quotes had a trade at about their price within the last half second, and the other way round? An equality on
the symbol and a band on the price, over time windows.
"""

from __future__ import annotations

import contextlib
import sys
import time as clock
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.table import Table

from ..engine.window_join import WindowJoin
from ..testing import trades_and_quotes

ON = "l.symbol = r.symbol AND l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01"
WINDOW = ("500 milliseconds", "250 milliseconds")
STEP = 2_000_000
"""Event time per push, in microseconds: about 2,000 rows of each stream."""
EXAMPLES = 5
PLAIN_LINES = 10
"""How often progress is printed where there is no terminal."""


class DemoFigures:
    """What has happened so far."""

    def __init__(self, rows: int) -> None:
        self.total = 2 * rows
        self.pushed = self.pairs = 0
        self.started = clock.perf_counter()
        self.metrics: dict[str, Any] = {}

    @property
    def seconds(self) -> float:
        return max(clock.perf_counter() - self.started, 1e-9)

    def lines(self) -> list[tuple[str, str]]:
        left, right = (self.metrics.get(side, {}).get("window", 0) for side in ("left", "right"))
        return [
            ("rows in", f"{self.pushed:,} of {self.total:,}"),
            ("rows in /s", f"{self.pushed / self.seconds:,.0f}"),
            ("pairs out", f"{self.pairs:,}"),
            ("pairs out /s", f"{self.pairs / self.seconds:,.0f}"),
            ("stored", f"{left:,} trades, {right:,} quotes"),
        ]

    def table(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        for label, value in self.lines():
            grid.add_row(label, value)
        return grid


def run(rows: int, seed: int) -> None:
    """Generate, join, show. Ctrl-C ends it after a summary of what was done."""
    console = Console(highlight=False)
    console.print(f"trades (l) and quotes (r), {rows:,} rows each, pushed in batches as they come")
    console.print(f"  ON     {ON}\n  WINDOW {WINDOW[0]} of trades, {WINDOW[1]} of quotes\n", markup=False)
    trades, quotes = trades_and_quotes(rows, seed)
    warm_up(trades, quotes)
    figures = DemoFigures(rows)
    examples: list[pa.Table] = []
    stopped = False
    with WindowJoin(trades.schema, quotes.schema, on=ON, window=WINDOW, time="ts") as join:
        try:
            with progress(console, figures) as show:
                for some_trades, some_quotes in in_step(trades, quotes):
                    join.push_left(some_trades)
                    join.push_right(some_quotes)
                    take(join, join.poll(), figures, examples)
                    show()
                take(join, join.finish(), figures, examples)
        except KeyboardInterrupt:
            stopped = True
        seconds, metrics = figures.seconds, join.metrics()
    console.print(sample(examples))
    console.print(summary(figures, metrics, seconds, stopped), markup=False)
    if stopped:
        raise KeyboardInterrupt


def in_step(trades: pa.Table, quotes: pa.Table) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Both streams cut at the same moments."""
    times = [np.asarray(table.column("ts").cast(pa.int64())) for table in (trades, quotes)]
    edges = np.arange(min(t[0] for t in times), max(t[-1] for t in times) + STEP + 1, STEP)
    cuts = [np.searchsorted(t, edges) for t in times]
    for i in range(len(edges) - 1):
        yield (
            trades.slice(cuts[0][i], cuts[0][i + 1] - cuts[0][i]),
            quotes.slice(cuts[1][i], cuts[1][i + 1] - cuts[1][i]),
        )


def warm_up(trades: pa.Table, quotes: pa.Table) -> None:
    """Compile the kernels, or load them, before the clock starts."""
    with WindowJoin(trades.schema, quotes.schema, on=ON, window=WINDOW, time="ts") as join:
        join.push_left(trades.slice(0, 8))
        join.push_right(quotes.slice(0, 8))
        join.finish()


def take(join: WindowJoin, result: pa.Table, figures: DemoFigures, examples: list[pa.Table]) -> None:
    figures.metrics = join.metrics()
    figures.pushed = figures.metrics["left"]["in"] + figures.metrics["right"]["in"]
    figures.pairs += result.num_rows
    if result.num_rows and not examples:
        examples.append(result.slice(0, EXAMPLES))


@contextlib.contextmanager
def progress(console: Console, figures: DemoFigures) -> Iterator[Any]:
    """A live panel in a terminal, a line now and then elsewhere."""
    if console.is_terminal:
        with Live(figures.table(), console=console, refresh_per_second=10, transient=True) as live:
            yield lambda: live.update(figures.table())
        return
    next_at = [figures.total // PLAIN_LINES]

    def show() -> None:
        if figures.pushed >= next_at[0]:
            next_at[0] += max(figures.total // PLAIN_LINES, 1)
            print("  ".join(f"{label} {value}" for label, value in figures.lines()), file=sys.stdout, flush=True)

    yield show


def sample(examples: list[pa.Table]) -> Table:
    columns = ("symbol", "trade at", "price", "quote at", "bid", "ask")
    table = Table(*columns, title="some of the joined rows", title_justify="left")
    for row in examples[0].to_pylist() if examples else []:
        at, quoted = (f"{row[name]:%H:%M:%S.%f}"[:-3] for name in ("ts", "ts_right"))
        table.add_row(row["symbol"], at, f"{row['price']:.2f}", quoted, f"{row['bid']:.2f}", f"{row['ask']:.2f}")
    return table


def summary(figures: DemoFigures, metrics: dict[str, Any], seconds: float, stopped: bool) -> str:
    latency = metrics["latency_ms"]["p95"]
    lines = [
        "stopped before the end" if stopped else "done",
        f"  {figures.pushed:,} rows in {seconds:.2f} s: {figures.pushed / seconds:,.0f} rows/s",
        f"  {figures.pairs:,} pairs, {metrics['comparisons']:,} candidates tested, {metrics['late']:,} rows late",
        f"  index {metrics['index']}, algorithm {metrics['algorithm']}",
    ]
    if latency is not None:
        lines.append(f"  95% of the pairs could be polled within {latency:.1f} ms of the push that completed them")
    return "\n".join(lines)
