"""What the conformance suite runs over. Algorithms and indexes come from the product's registries, so that a new one
is tested with every case, window and order by its line there alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations, cycle, product
from typing import Any, NamedTuple

import pytest

from streamjoin.predicate import Plan
from streamjoin.predicate.lower import lower
from streamjoin.store.registry import INDEXES as REGISTERED_INDEXES
from streamjoin.topology.registry import ALGORITHMS as REGISTERED_ALGORITHMS
from streamjoin.window import CountWindow, TimeWindow, Window

from ..long import LONG
from ..pairwise import Choice, Row, pairwise


class Windows(NamedTuple):
    """Windows of both sides, time windows counted in the case's own steps; `time` is False without a time column."""

    left: Window
    right: Window
    time: bool = True


WINDOWS = {
    "time": Windows(TimeWindow(12), TimeWindow(12)),
    "time-uneven": Windows(TimeWindow(3), TimeWindow(40)),
    "time-1": Windows(TimeWindow(1), TimeWindow(1)),
    "count": Windows(CountWindow(9), CountWindow(9)),
    "count-uneven": Windows(CountWindow(2), CountWindow(30)),
    "count-1": Windows(CountWindow(1), CountWindow(1)),
    "time-count": Windows(TimeWindow(10), CountWindow(5)),
    "count-time": Windows(CountWindow(5), TimeWindow(10)),
    "count-time-1": Windows(CountWindow(1), TimeWindow(1)),
    "no-time": Windows(CountWindow(8), CountWindow(8), time=False),
    "no-time-uneven": Windows(CountWindow(1), CountWindow(25), time=False),
}
TIMED = tuple(name for name, windows in WINDOWS.items() if windows.time)

ALGORITHMS = (*REGISTERED_ALGORITHMS, "auto")
INDEXES = (*REGISTERED_INDEXES, "auto")
WORKERS = (1, 2, 3, 8)
ORDERS = ("none", "punctuated", "sorted")
HOWS = ("inner", "left", "right", "full", "semi", "anti")
MATCHES = ("all", "latest", "nearest")
SIZES: dict[str, int | None] = {"1": 1, "7": 7, "64": 64, "whole": 1_000_000, "random": None}
"""Rows per push; None: random cuts, some of them empty."""
ENGINE = {"algorithm": ALGORITHMS, "index": INDEXES, "workers": WORKERS}


class Engine(NamedTuple):
    """One way to run a join."""

    algorithm: str
    index: str
    workers: int

    def __str__(self) -> str:
        return f"{self.algorithm}-{self.index}-{self.workers}"


def engine_of(row: Row) -> Engine:
    return Engine(*(row[name] for name in ENGINE))  # type: ignore[arg-type]


def offers(plan: Plan) -> set[str]:
    """What a predicate has for indexes to use."""
    return {"nothing", *["equality"] * bool(plan.equalities), *["order"] * lower(plan).has_order}


def can_run(index: str, plan: Plan) -> bool:
    return index == "auto" or REGISTERED_INDEXES[index].needs in offers(plan)


def rule(plans: Mapping[Any, Plan]) -> Callable[[Choice, Choice], bool]:
    """Which choices go together: an index needs something of the case's predicate. Algorithms that use one core
    whatever they are given get two numbers of workers, not all. Only timestamps say what is closest, and only some
    kinds of join ask for it."""
    able = {(case, index): can_run(index, plan) for case, plan in plans.items() for index in INDEXES}

    def may(a: Choice, b: Choice) -> bool:
        chosen: Any = dict((a, b))
        if chosen.keys() == {"case", "index"}:
            return able[chosen["case"], chosen["index"]]
        if chosen.keys() == {"algorithm", "workers"}:
            algorithm = REGISTERED_ALGORITHMS.get(chosen["algorithm"])
            return chosen["workers"] in (1, 3) or algorithm is None or not algorithm.one_core
        if chosen.get("match", "all") != "all":
            return chosen.get("how", "inner") in ("inner", "left") and chosen.get("window", TIMED[0]) in TIMED
        return True

    return may


def table(
    dimensions: Mapping[str, Sequence[Any]],
    full: Sequence[str],
    may: Callable[[Choice, Choice], bool],
    apart: Collection[frozenset[str]] = (),
) -> list[Row]:
    """The rows to run. Short: all pairs. Long: all combinations of the dimensions in `full`, while the values of the
    others take turns."""
    if not LONG:
        return pairwise(dimensions, may, apart)
    others = [name for name in dimensions if name not in full]
    turns = cycle(list(product(*(dimensions[name] for name in others))))
    rows = []
    for values in product(*(dimensions[name] for name in full)):
        chosen = list(zip(full, values, strict=True))
        if all(may(a, b) for a, b in combinations(chosen, 2)):
            rest = (list(zip(others, turn, strict=True)) for turn in turns)
            row = chosen + next(rest_ for rest_ in rest if all(may(a, b) for a, b in product(chosen, rest_)))
            rows.append({name: dict(row)[name] for name in dimensions})
    return rows


def grouped(rows: Sequence[Row], by: Sequence[str]) -> list[Any]:
    """One test for each combination of these dimensions, with a list of its rows."""
    groups = dict[str, list[Row]]()
    for row in rows:
        groups.setdefault("-".join(str(row[name]) for name in by), []).append(row)
    return [pytest.param(group, id=name) for name, group in groups.items()]


def each(rows: Sequence[Row]) -> list[Any]:
    """One test for each row."""
    return [pytest.param(row, id="-".join(map(str, row.values()))) for row in rows]
