"""NULLs in windows that a GPU scans: the kernel without them, the one with words of bits, and the way from one to the
other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.gpu.condition import GpuCondition
from streamjoin.predicate.lower import lower
from streamjoin.side import SIDES

from .. import constants, interpreted
from ..conformance.engines import WINDOWS, engine_of
from ..conformance.harness import Case, check, expected, run
from . import python_machine

SIZE, PUSH = 120, 10
PREDICATES = [
    "l.x = r.x OR l.y = r.y",
    "l.x < r.x AND l.y > r.y OR l.x = r.y OR l.z IS NULL AND r.z IS NULL",
    "l.x <=> r.x AND l.y <=> r.y",
    "NOT (l.x <> r.x) OR l.z IS NULL AND l.y = r.y OR r.y IS NULL AND l.x = r.z",
    "l.x % 7 = r.x % 5 AND l.x + r.y = 9 OR l.z - r.z = 1 AND l.x < r.x",
    "CASE WHEN l.x > r.x THEN l.y = r.y ELSE l.z = r.z END",
    "coalesce(l.x, 3) = r.x OR l.f * r.f < 2.0",
]


def stream(seed: int, own: str, empty: dict[str, range]) -> pa.Table:
    """Small numbers; a column is NULL in two of three rows of a range."""
    rng = np.random.default_rng(seed)

    def column(name: str, kind: pa.DataType) -> pa.Array:
        values = rng.integers(0, 9, SIZE)
        mask = np.isin(np.arange(SIZE), empty.get(name, range(0))) & (np.arange(SIZE) % 3 > 0)
        return pa.array(values, mask=mask).cast(kind)

    return pa.table({
        "ts": np.arange(SIZE) // 2, own: np.arange(SIZE), "x": column("x", pa.int32()), "y": column("y", pa.int64()),
        "z": column("z", pa.int16()), "f": column("f", pa.float64()),
    })  # fmt: skip


LEFT = stream(1, "ln", {"x": range(30, 45), "y": range(40, 50), "z": range(100, 110)})
RIGHT = stream(2, "rn", {"x": range(35, 40), "y": range(80, 85), "z": range(102, 115), "f": range(60, 63)})


@pytest.mark.parametrize("on", PREDICATES)
def test_nulls_come_and_go(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, SMALLEST_SUBWINDOW=8, SMALLEST_SCANNED=8, ALONE=1)
    gpu, texts = python_machine.install(monkeypatch), set[bool]()
    launch = gpu.launch

    def noted(source: str, name: str, *rest: Any) -> None:
        texts.add("& i32(" in source)
        launch(source, name, *rest)

    monkeypatch.setattr(gpu, "launch", noted)
    case, window = Case("nulls", LEFT, RIGHT, on), WINDOWS["time"]
    engine = engine_of({"index": "scan", "algorithm": "panjoin", "workers": 1})
    result = run(case, engine, window, size=PUSH, device="gpu")
    check(case, result, expected(case, window, arrivals=result.arrivals), order="none")
    assert result.metrics["indexes"]["left"]["device"] == "gpu"
    assert texts == {False, True}, "NULLs come and go, so both kernels are needed"


def test_bits_of_both_sides_differ() -> None:
    lowered = lower(Case("nulls", LEFT, RIGHT, PREDICATES[1]).plan)
    condition = GpuCondition(lowered)
    words = {}
    for side in SIDES:
        numbers = condition._nullable[side]
        slots = {number: np.zeros(4, np.bool_) for number in numbers}
        word = len(lowered.slots[side])
        assert word in condition.columns(side)
        words[side] = int(condition.values(side, word, slots, 1, 3)[0])
        assert words[side].bit_count() == len(numbers) > 0
        assert condition.has_nulls(side, slots, 0, 4)
    assert words["left"] & words["right"] == 0


def test_too_many_bits_are_read_one_by_one() -> None:
    """A word has room for so many columns; where there are more, none is put into it."""
    names = [f"c{n}" for n in range(20)]
    table = pa.table({name: pa.array([1, None], pa.int32()) for name in names})
    on = " OR ".join(f"l.{name} = r.{name}" for name in names)
    lowered = lower(Case("many", table, table, on).plan)
    condition = GpuCondition(lowered)
    assert not condition.has_words
    assert condition.whole is lowered
    assert condition.without_nulls is lowered
