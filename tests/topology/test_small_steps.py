"""Small steps find what ordinary ones find."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin import TimeWindow, WindowJoin
from streamjoin.side import SIDES, Side
from streamjoin.store.subwindow import FEW_PROBES
from streamjoin.topology.small_steps import SmallSteps

from .. import constants

BAND = "l.k BETWEEN r.k - 3 AND r.k + 3"
PREDICATES = {"hash": f"l.k % 7 = r.k % 7 AND {BAND}"}
"""By index; the others serve a band."""


def streams(seed: int) -> list[tuple[str, pa.Table]]:
    """Batches of 1 to 200 rows, mostly small, of two streams whose times are a little out of order."""
    rng, batches, time = np.random.default_rng(seed), [], 0
    for number in range(150):
        side, count = (
            ("left", "right")[number % 2],
            int(rng.choice([1, 7, 64, 128, 200], p=[0.2, 0.3, 0.3, 0.15, 0.05])),
        )
        ts = np.maximum(time + rng.integers(-5, 10, count), 0)
        time += 4
        columns = {"n": np.arange(count) + 1_000 * number, "ts": ts, "k": rng.integers(0, 60, count).astype(np.int32)}
        batches.append((side, pa.table(columns)))
    return batches


def pairs(seed: int, index: str, window: object, time: str | None, polls: int, workers: int) -> list[tuple[int, int]]:
    batches = streams(seed)
    schema = batches[0][1].schema
    found: list[tuple[int, int]] = []
    with WindowJoin(
        schema,
        schema,
        on=PREDICATES.get(index, BAND),
        window=window,
        time=time,
        lateness=20 if time else 0,
        index=index,
        workers=workers,
    ) as join:
        for number, (side, batch) in enumerate(batches):
            join.push(side, batch)
            if number % polls == 0:
                out = join.poll()
                found += zip(out["n"].to_pylist(), out["n_right"].to_pylist(), strict=True)
        out = join.finish()
        found += zip(out["n"].to_pylist(), out["n_right"].to_pylist(), strict=True)
        return sorted(found)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each small step."""
    taken, step = [], SmallSteps.step

    def noted(self: SmallSteps, *args: Any) -> object:
        found = step(self, *args)
        if found is not None:
            taken.append(max(map(len, args[0].values()), default=0))
        return found

    monkeypatch.setattr(SmallSteps, "step", noted)
    return taken


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("index", ["scan", "auto", "bi-sort", "rap-table", "hash"])
@pytest.mark.parametrize(("window", "time"), [(40, None), ((3000, 5), None), (TimeWindow(30), "ts"), (1, "ts")])
def test_they_find_what_ordinary_steps_find(
    index: str, window: object, time: str | None, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMJOIN_COMPILE", "first")
    constants.replace(monkeypatch, SMALLEST_SUBWINDOW=256, TAIL=100)  # so that there are runs, and several subwindows
    taken = counted(monkeypatch)
    pieces, piece_by_piece = [], SmallSteps._piece_by_piece

    def noted(self: SmallSteps, *args: Any) -> object:
        pieces.append(1)
        return piece_by_piece(self, *args)

    monkeypatch.setattr(SmallSteps, "_piece_by_piece", noted)
    for seed, polls in enumerate((1, 2)):
        small = pairs(seed, index, window, time, polls, workers)
        assert small
        with monkeypatch.context() as without:
            constants.replace(without, IN_A_ROW=0)
            before = len(taken)
            assert pairs(seed, index, window, time, polls, workers) == small
            assert len(taken) == before
    assert taken or index in ("auto", "rap-table"), "words that do not lie in runs are searched by ordinary steps"
    if time is None and index in ("scan", "bi-sort"):
        assert len(pieces) < len(taken) / 2, "one compiled call"


MANY_PREDICATES = (BAND, "l.k <> r.k", "l.k = r.k AND l.x < r.x", "l.x > 1.5 AND coalesce(l.k, 0) * 2 > r.k + 90")


def large_batches(seed: int) -> list[tuple[Side, pa.Table]]:
    """Batches of up to 2,000 rows, with NULLs. Times come in steps, gaps and ties; from seed 1 on, out of order."""
    rng, batches, time = np.random.default_rng(seed), [], 0
    for number in range(24):
        count = int(rng.choice([1, 90, 129, 700, 2000]))
        steps = rng.choice([0, 0, 1, 40], count, p=[0.5, 0.2, 0.28, 0.02])
        ts = time + np.cumsum(steps)
        time = int(ts[-1]) - seed * int(rng.integers(0, 3) * 10)
        columns = {
            "n": np.arange(count) + 10_000 * number,
            "ts": ts,
            "k": pa.array(rng.integers(0, 60, count).astype(np.int32), mask=rng.random(count) < 0.05),
            "x": pa.array(rng.choice([-0.0, 1.0, 2.0, np.nan], count), mask=rng.random(count) < 0.05),
        }
        batches.append((SIDES[int(rng.integers(2))], pa.table(columns)))
    return batches


def codes(
    batches: list[tuple[Side, pa.Table]], on: str, window: Any, time: str | None, polls: int, algorithm: Any,
    workers: int,
) -> list[int]:  # fmt: skip
    """The pairs of a join that scans, each as one number."""
    found: list[pa.Table] = []
    schema = batches[0][1].schema
    with WindowJoin(
        schema, schema, on=on, window=window, time=time, lateness=30 if time else 0,
        algorithm=algorithm, index="scan", workers=workers, max_pending=20_000,
    ) as join:  # fmt: skip
        for number, (side, batch) in enumerate(batches):
            while join.is_full:  # in the middle of a step
                found.append(join.poll())
            join.push(side, batch)
            if number % polls == 0:
                found.append(join.poll())
        found.append(join.finish())
    out = pa.concat_tables(found)
    return sorted((out["n"].to_numpy() * 1_000_000 + out["n_right"].to_numpy()).tolist())


@pytest.mark.parametrize(("window", "time"), [(40, None), ((100, 5), None), (TimeWindow(8), "ts"), ((20, 3), "ts")])
@pytest.mark.parametrize("on", MANY_PREDICATES)
def test_large_batches_that_reach_few_tuples(
    on: str, window: object, time: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scanned windows give up what has expired, again and again, and steps are turned, trimmed and refused."""
    monkeypatch.setenv("STREAMJOIN_COMPILE", "first")
    constants.replace(monkeypatch, MOST_ROWS=2000, SMALLEST_SCANNED=4096)
    taken = counted(monkeypatch)
    for seed, polls in ((0, 1), (1, 3)):
        batches = large_batches(seed)

        joined = partial(codes, batches, on, window, time, polls)
        results = [joined("three-step", 1), joined("panjoin", 2)]
        with monkeypatch.context() as without:
            constants.replace(without, IN_A_ROW=0)
            expected = joined("three-step", 1)
        assert expected
        assert results == [expected, expected]
    assert max(taken) > FEW_PROBES
