"""The judge of every circuit: streams to order, a run, and the oracle's pairs over what the circuit accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin import oracle
from streamjoin.hardware import Report, simulate
from streamjoin.predicate import plan_for
from streamjoin.predicate.evaluate import is_true, table_rows
from streamjoin.window import CountWindow

EQUAL = "l.k = r.k"


def streams(rows: tuple[int, int], match: float, seed: int, *, ties: bool = True) -> tuple[pa.Table, pa.Table]:
    """Two streams in which a tuple has the common key with probability `match`, else one that no other has."""
    rng = np.random.default_rng(seed)
    tables = []
    unique = 1
    for side, count in enumerate(rows):
        keys = np.where(rng.random(count) < match, 0, unique + np.arange(count))
        unique += count
        span = max(rows) if ties else 4 * max(rows)
        times = np.sort(rng.integers(0, span, count)) if ties else np.sort(rng.permutation(span)[:count]) * 2 + side
        tables.append(pa.table({"ts": pa.array(times), "k": pa.array(keys, pa.int32()), "id": np.arange(count)}))
    return tables[0], tables[1]


def check(left: pa.Table, right: pa.Table, *, on: Any = EQUAL, time: str | None = "ts", **arguments: Any) -> Report:
    """Run a circuit and hold its result against the oracle's; both tables have a column `id`, their row numbers."""
    out, report = simulate(left, right, on=on, time=time, report=True, **arguments)
    rows = {"left": table_rows(left, left.column_names), "right": table_rows(right, right.column_names)}
    accepted = {side: sorted(report.accepted[side]) for side in ("left", "right")}
    plan = plan_for(on, left.schema, right.schema)
    size = CountWindow(arguments["cores"] * arguments["segment"])
    pairs = oracle.join_pairs(
        [rows["left"][i] for i in accepted["left"]], [rows["right"][i] for i in accepted["right"]],
        is_true(plan.predicate), (size, size), None if time is None else (time, time),
    )  # fmt: skip
    expected = sorted((accepted["left"][l], accepted["right"][r]) for l, r in pairs)
    found = sorted(zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True))
    assert found == expected, f"{len(found)} results in place of {len(expected)}"
    for side, table in (("left", left), ("right", right)):
        fates = sorted([*report.accepted[side], *report.discarded[side]])
        assert fates == list(range(table.num_rows)), "a tuple was neither accepted nor discarded, or both"
    return report
