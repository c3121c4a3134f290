"""The figures that paths are compared by: measured, kept, overridden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from streamjoin import WindowJoin
from streamjoin.errors import ArgumentError
from streamjoin.predicate import plan_for
from streamjoin.predicate.lower import Lowered, lower
from streamjoin.store import costs
from streamjoin.store.costs import REFERENCE, Costs, comparison_cost


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("streamjoin.store.costs.cache_directory", lambda: tmp_path)
    costs.costs.cache_clear()
    yield tmp_path
    costs.costs.cache_clear()


@pytest.fixture(autouse=True)
def nothing_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_measured", {})


def lowered(on: str) -> Lowered:
    schema = pa.schema([("k", pa.int32()), ("d", pa.decimal128(28, 2))])
    return lower(plan_for(on, schema, schema))


def test_a_comparison_costs_what_was_measured() -> None:
    dear, cheap = lowered("l.k = r.k AND l.d * r.d > 9"), lowered("l.k = r.k AND l.d * r.d > 9 AND l.d > r.d")
    assert comparison_cost(dear) < 3
    costs.note_comparison(dear, 7.5)
    assert comparison_cost(dear) == comparison_cost(lowered("l.k = r.k AND l.d * r.d > 9")) == 7.5
    assert comparison_cost(cheap) < 3


def test_few_comparisons_are_made_with_a_tail_where_they_are_dear() -> None:
    """An ordered index leaves its youngest tuples in a tail that every batch compares with."""
    rng = np.random.default_rng(3)
    keys, worth = rng.integers(0, 100_000, 6400).astype(np.int32), pa.array([1] * 6400, pa.decimal128(28, 2))
    table, on = pa.table({"k": keys, "d": worth}), "l.k BETWEEN r.k - 1 AND r.k + 1 AND l.d * r.d > 9"
    compared = []
    for nanoseconds in (0.1, 500.0):
        costs.note_comparison(lowered(on), nanoseconds)
        with WindowJoin(table.schema, table.schema, on=on, window=2000, index="bi-sort", workers=1) as join:
            for start in range(0, 6400, 128):
                join.push_left(table.slice(start, 128))
                join.push_right(table.slice(start, 128))
                join.poll()
            compared.append(join.metrics()["comparisons"])
    assert 4 * compared[1] < compared[0]


def test_a_machine_is_measured_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert costs.costs() == Costs()
    costs.calibrate()
    kept = json.loads((directory / costs.FILE).read_text())
    assert set(kept) == set(REFERENCE)
    assert all(0 < value < 10_000 for value in kept.values())
    assert costs.costs().compare == pytest.approx(Costs().compare * kept["vectors"] / REFERENCE["vectors"])
    assert costs.costs().candidate == pytest.approx(Costs().candidate * kept["searches"] / REFERENCE["searches"])
    assert costs.costs().scan_step == Costs().scan_step
    monkeypatch.setattr(costs, "measure", lambda: pytest.fail("it was measured again"))
    costs.calibrate()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"vectors": "x", "searches": 1}', '{"vectors": 1}'])
def test_a_file_that_cannot_be_read_is_no_file(directory: Path, content: str) -> None:
    (directory / costs.FILE).write_text(content)
    assert costs.costs() == Costs()


def test_figures_can_be_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOIN_COSTS", "compare=0.5, candidate=7")
    assert costs.costs() == Costs(compare=0.5, candidate=7)


@pytest.mark.parametrize("text", ["compare", "compare=x", "speed=1", "compare=-1"])
def test_a_wrong_figure_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOIN_COSTS", text)
    with pytest.raises(ArgumentError, match=r"STREAMJOIN_COSTS: .* is not valid; give name=nanoseconds"):
        costs.costs()
