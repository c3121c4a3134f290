"""Small steps find what ordinary ones find."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamjoin import TimeWindow, WindowJoin
from streamjoin.topology import small_steps
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


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("index", ["scan", "auto", "bi-sort", "rap-table", "hash"])
@pytest.mark.parametrize(("window", "time"), [(40, None), ((3000, 5), None), (TimeWindow(30), "ts"), (1, "ts")])
def test_they_find_what_ordinary_steps_find(
    index: str, window: object, time: str | None, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMJOIN_COMPILE", "first")
    constants.replace(monkeypatch, SMALLEST_SUBWINDOW=256, TAIL=100)  # so that there are runs, and several subwindows
    taken, step = [], SmallSteps.step

    def counted(self: SmallSteps, *args: object) -> object:
        taken.append(1)
        return step(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(SmallSteps, "step", counted)
    for seed, polls in enumerate((1, 2)):
        small = pairs(seed, index, window, time, polls, workers)
        assert small
        with monkeypatch.context() as without:
            without.setattr(small_steps, "IN_A_ROW", 0)
            before = len(taken)
            assert pairs(seed, index, window, time, polls, workers) == small
            assert len(taken) == before
    assert taken or index in ("auto", "rap-table"), "words that do not lie in runs are searched by ordinary steps"
