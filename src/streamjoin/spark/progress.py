"""The figures of a micro-batch: read from Spark's progress reports, shown as a line for people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from pyspark.sql.streaming.listener import StreamingQueryListener

from ..side import SIDES
from .null_times import null_times
from .outputs import COUNTS

NAME = "streamjoin"
"""The name under which `stream_join` reports its figures by default."""
JOIN = "join"
"""A figure that is the identity of the join, which its cache directories bear."""
UNDECLARED = "lateness_not_given"
"""A figure that only those joins have whose lateness is 0 because nobody has said otherwise."""
MANY_ROWS, SKEWED = 50_000, 1.7
"""With so many rows in the windows, a worker that has so many times the mean is worth a word."""
_LOG = logging.getLogger("streamjoin")


@dataclass(frozen=True)
class WorkerFigures:
    """One worker in one micro-batch: the rows in its share of the windows, its results, its seconds, what it holds."""

    worker: int
    left_window: int
    right_window: int
    out: int
    seconds: float
    rows_held: int = 0
    bytes_held: int = 0

    @property
    def rows(self) -> int:
        """Rows that it keeps and rows that it gives: unlike seconds, they are the same on every run."""
        return self.left_window + self.right_window + self.out


@dataclass(frozen=True)
class Progress:
    """One micro-batch of a `stream_join`: rows in, late and out, rows in the windows after it, and its seconds.

    Rows in include those that are late and those without a timestamp, if they are left out (`left_null_time`,
    `right_null_time`). `unmatched` are those rows out that have no partner (`how`). `rows_held` are all rows that the
    state keeps, those included that wait until order lets them take part; `bytes_held` is their size in memory, with
    what is known about them, and without indexes. `slowest` and `mean` are seconds of the workers; the
    batch takes as long as the slowest. `routing` says which routing the join has, and why.
    """

    batch: int
    seconds: float
    left_in: int
    right_in: int
    left_late: int
    right_late: int
    out: int
    unmatched: int
    left_window: int
    right_window: int
    rows_held: int
    bytes_held: int
    slowest: float
    mean: float
    workers: tuple[WorkerFigures, ...]
    routing: str = ""
    left_null_time: int = 0
    right_null_time: int = 0

    @classmethod
    def of(cls, progress: Mapping[str, Any], name: str = NAME) -> Progress | None:
        """The figures in a `StreamingQueryProgress`; None where no join of that name ran, as while a query waits."""
        observed = {key: named(row) for key, row in progress["observedMetrics"].items()}
        if name not in observed:
            return None
        row = observed[name]
        dropped = {side: null_times(observed, name, side) for side in SIDES}
        fields = WorkerFigures.__dataclass_fields__
        workers = (WorkerFigures(**{field: named(one)[field] for field in fields}) for one in row["workers"])
        return cls(
            batch=progress["batchId"],
            seconds=progress["durationMs"].get("triggerExecution", 0) / 1_000,
            **{count: row[count] for count in COUNTS}
            | {f"{side}_in": row[f"{side}_in"] + dropped[side] for side in SIDES},
            **{f"{side}_null_time": dropped[side] for side in SIDES},
            slowest=row["slowest_s"] or 0.0,
            mean=row["mean_s"] or 0.0,
            workers=tuple(sorted(workers, key=lambda one: one.worker)),
            routing=row["routing"],
        )

    @property
    def rows(self) -> int:
        """Rows in on both sides, with those that take no part."""
        return self.left_in + self.right_in

    @property
    def late(self) -> int:
        return self.left_late + self.right_late

    @property
    def null_time(self) -> int:
        """Rows that were left out because they have no timestamp."""
        return self.left_null_time + self.right_null_time

    @property
    def skew(self) -> float:
        """The largest share of a worker over the mean, in seconds or in rows, whichever is larger: 1.0 if all are
        equal. Seconds also differ because a machine is busy; rows differ only because of keys."""
        rows = [one.rows for one in self.workers]
        in_rows = max(rows, default=0) * len(rows) / sum(rows) if sum(rows) else 1.0
        return max(self.slowest / self.mean if self.mean else 1.0, in_rows)

    def per_second(self, count: int) -> float:
        return count / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        without_time = f", {self.null_time:,} without a time" if self.null_time else ""
        return (
            f"batch {self.batch}: {self.rows:,} in ({self.per_second(self.rows):,.0f}/s), "
            f"{self.out:,} out ({self.per_second(self.out):,.0f}/s), {self.late:,} late{without_time}; "
            f"windows {self.left_window:,} and {self.right_window:,} rows, {size(self.bytes_held)} held; "
            f"{self.seconds:.2f} s, skew {self.skew:.2f}"
        )


def size(count: int) -> str:
    """A number of bytes for people."""
    amount, units = float(count), ("B", "KB", "MB", "GB", "TB")
    for unit in units[:-1]:
        if amount < 1_000:
            return f"{amount:.3g} {unit}"
        amount /= 1_000
    return f"{amount:,.3g} {units[-1]}"


def named(row: Any) -> Mapping[str, Any]:
    """A row by the names of its columns. On Spark Connect, its values come beside its schema."""
    values = row if isinstance(row, dict) else row.asDict()
    if set(values) != {"values", "schema"}:
        return values
    return dict(zip((field["name"] for field in values["schema"]["fields"]), values["values"], strict=True))


class BatchListener(StreamingQueryListener):
    """Calls `seen` with the figures of each micro-batch of the join called `name`, and `ended` when a query ends."""

    def __init__(
        self, seen: Callable[[Progress], object], ended: Callable[[], object] = lambda: None, name: str = NAME
    ) -> None:
        self._seen, self._ended, self._name = seen, ended, name

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:
        figures = Progress.of(event.progress, self._name)
        if figures is not None:
            self._seen(figures)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has come."""

    def onQueryTerminated(self, event: Any) -> None:
        self._ended()


class ConsoleListener(BatchListener):
    """Prints a line for each micro-batch: `spark.streams.addListener(ConsoleListener())`."""

    def __init__(self, name: str = NAME) -> None:
        super().__init__(lambda figures: print(figures.line(), flush=True), name=name)


class Advice(StreamingQueryListener):
    """Tells in the log, once for each run of a query, what somebody should change: rows are dropped as late and no
    lateness was given, or one worker has most of the rows."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str]] = set()

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        for name, found in progress["observedMetrics"].items():
            figures = named(found)
            if not {"routing", "workers", *COUNTS} <= set(figures):
                continue  # not ours
            for about, advice in (("late rows", _on_late_rows(figures)), ("skew", _on_skew(figures))):
                run = str(progress["runId"]), name, about
                if advice is not None and run not in self._told:
                    self._told.add(run)
                    _LOG.warning("%s: in micro-batch %s, %s", name, progress["batchId"], advice)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has come."""

    def onQueryTerminated(self, event: Any) -> None:
        """Another run of the query will tell again."""


def _on_late_rows(figures: Mapping[str, Any]) -> str | None:
    late = {side: figures[f"{side}_late"] for side in SIDES}
    if UNDECLARED not in figures or not any(late.values()):
        return None
    return (
        f"{late['left']:,} left and {late['right']:,} right rows came late and take no part; lateness was not given, "
        "so it is 0: give how far rows may be out of order from one micro-batch to the next, as in "
        'lateness="10 seconds"'
    )


def _on_skew(figures: Mapping[str, Any]) -> str | None:
    stored = [one["left_window"] + one["right_window"] for one in map(named, figures["workers"])]
    if sum(stored) < MANY_ROWS or max(stored) * len(stored) < SKEWED * sum(stored):
        return None
    better = "split" if figures["routing"].startswith("hash") else "broadcast"
    return (
        f"one of {len(stored)} workers keeps {max(stored) / sum(stored):.0%} of the rows ({figures['routing']}): keys "
        f'lie near each other, or one is frequent; routing="{better}" shares them out evenly, with a new checkpoint'
    )


_SESSIONS_WITH_LISTENER: WeakSet[Any] = WeakSet()


def give_advice(session: Any) -> None:
    """Have a session tell of late rows that nobody expects, and of work that is not shared out."""
    if session not in _SESSIONS_WITH_LISTENER:
        _SESSIONS_WITH_LISTENER.add(session)
        session.streams.addListener(Advice())
