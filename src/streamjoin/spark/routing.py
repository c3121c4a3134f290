"""Which routing a join takes, and why: from the predicate, the number of workers and what the user asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

import pyarrow as pa

from ..arguments import choose
from ..errors import ArgumentError
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..predicate.render import render
from ..side import Side
from .blocks import block_key, has_many_blocks
from .range_keys import PointKey, range_key
from .spec import Routing

FEW_WORKERS = 4
"""Up to this number of workers, it costs less to send every tuple to all of them than to find out where to send it."""


@dataclass(frozen=True, slots=True)
class Route:
    """A routing with what it needs, as in `JoinSpec`."""

    routing: str
    why: str
    key: PointKey | None = None
    block_size: float | None = None

    def suits(self, lowered: Lowered, workers: int, needs_order: bool) -> bool:
        """Whether `auto` may take it."""
        if self.key is None:
            return True
        if self.block_size is not None:
            return has_many_blocks(lowered, self.key, self.block_size, workers)
        return workers > FEW_WORKERS and not needs_order and self.key[1].bounded


def choose_routing(
    routing: Any, lowered: Lowered, schemas: dict[Side, pa.Schema], workers: int, needs_order: bool
) -> Route:  # fmt: skip
    """The routing that was asked for, if the predicate allows it. `auto` is the first in the order of `_routes`."""
    choose("routing", routing, get_args(Routing))
    routes = _routes(lowered, schemas)
    if routing == "auto":
        for name in [name for name, route in routes.items() if not route.suits(lowered, workers, needs_order)]:
            del routes[name]
        if workers == 1 and "hash" not in routes:
            return replace(routes["broadcast"], why="there is one worker")
        return next(iter(routes.values()))
    if routing not in routes:
        others = " or ".join(repr(name) for name in ("auto", *routes))
        raise ArgumentError(f"routing: {routing!r} needs {_NEEDS[routing]}, and the predicate has none; use {others}")
    return replace(routes[routing], why=f"asked for; {routes[routing].why}" if routing != "broadcast" else "asked for")


_NEEDS = {
    "hash": "an equality between the two streams that every pair must meet, such as l.k = r.k",
    "split": "an equality between the two streams that every pair must meet, such as l.k = r.k",
    "range": "a band or a range that every pair must meet, such as l.x BETWEEN r.a AND r.b, over numbers that cannot "
    "overflow",
    "blocks": "a band of constant width that every pair must meet, such as l.x BETWEEN r.x - 5 AND r.x + 5",
}


def _routes(lowered: Lowered, schemas: dict[Side, pa.Schema]) -> dict[str, Route]:
    """The routings that the predicate allows, by name, the best first."""
    routes: dict[str, Route] = {}
    if lowered.hash_slots:
        routes["hash"] = Route("hash", "the predicate has an equality")
        routes["split"] = Route("split", "the predicate has an equality")
    blocks, range_ = block_key(lowered, schemas), range_key(lowered)
    if blocks is not None:
        key, size = blocks
        routes["blocks"] = Route("blocks", f"{_band(key[1])} has a band of constant width; blocks of {size:g}", *blocks)
    if range_ is not None:
        kind = "band" if range_[1].bounded else "range"
        routes["range"] = Route("range", f"{_band(range_[1])} has a {kind}", range_)
    routes["broadcast"] = Route("broadcast", "nothing else suits the predicate, the windows and the number of workers")
    return routes


def _band(key: RangeKey) -> str:
    return "a number" if key.expr is None else render(key.expr)
