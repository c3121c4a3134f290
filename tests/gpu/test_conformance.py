"""Joins whose windows a GPU scans, against the oracle. The GPU is one in Python, which runs the kernels' text.

`STREAMJOIN_TEST_GPU=1` takes the GPU of this machine instead.
"""

from __future__ import annotations

import os

import pytest

from streamjoin.gpu.support import unable
from streamjoin.predicate.lower import lower
from streamjoin.topology.registry import ALGORITHMS

from .. import constants, interpreted
from ..conformance.cases import STREAMS, VALUES
from ..conformance.conftest import HANDFUL
from ..conformance.engines import ENGINE, HOWS, ORDERS, SIZES, WINDOWS, engine_of
from ..conformance.harness import Case, check, expected, run
from ..long import LONG
from ..pairwise import Row, goes_with_all, pairwise
from . import python_machine

WAYS = {
    **ENGINE, "index": ("auto", "scan"), "algorithm": tuple(ALGORITHMS), "workers": (1, 3), "window": tuple(WINDOWS),
    "order": ORDERS, "how": HOWS, "size": tuple(SIZES),
}  # fmt: skip
CASES = STREAMS | VALUES
APART = [] if LONG else [frozenset(("case", name)) for name in WAYS]
ON_A_GPU = os.environ.get("STREAMJOIN_TEST_GPU", "0") not in ("", "0")
WITHOUT_LIVE_TUPLES = {"none-match", "null-predicate"}
ON_THE_CPU = {
    "uint64-equality", "uint64-band", "uint64-above-int64", "uint64-beside-int64", "decimals-band", "wide-decimals",
    "wide-decimals-range",
}  # fmt: skip
"""Cases that a GPU cannot run, which shows that all others do run there."""


def rows(cases: dict[str, Case]) -> list[Row]:
    """Each case at least once, and all pairs of the other choices."""
    return pairwise({"case": tuple(cases), **WAYS}, goes_with_all, APART)


def judge(row: Row, seed: int, device: str = "gpu") -> bool:
    """Run it and compare; whether the GPU was used."""
    choice: dict = dict(row)
    case, window, order, how = CASES[choice["case"]], WINDOWS[choice["window"]], choice["order"], choice["how"]
    size = SIZES[choice["size"]]
    result = run(case, engine_of(row), window, order=order, how=how, size=size, seed=seed, device=device)
    wanted = expected(case, window, how=how, arrivals=result.arrivals)
    try:
        check(case, result, wanted, order=order, how=how)
    except AssertionError as error:
        raise AssertionError(f"{row}, seed {seed}: {error}") from None
    figures = result.metrics["indexes"].values()
    return any(side["device"] == "gpu" for side in figures)


@pytest.fixture(autouse=True)
def small_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, **HANDFUL, DEVICE_PART=50)
    interpreted.install(monkeypatch)
    if ON_A_GPU:
        constants.replace(
            monkeypatch,
            GPU_ROOM=40,
            GPU_TILE=8,
            GPU_SMALLEST=32,
            GPU_FIRST_FETCH=3,
            GPU_CHUNK=4,
            GPU_SELECTIVE=0,
            GPU_STAGED=600,
            GPU_GROUP=2,
            GPU_SHIFT=2,
        )
    else:
        python_machine.install(monkeypatch)


PARTS = range(8)


@pytest.mark.parametrize("part", PARTS)
def test_joins(part: int) -> None:
    """Streams, windows, orders, kinds of join and algorithms, while pairs overflow their room again and again."""
    used = 0
    for seed, row in enumerate(rows(STREAMS)[part :: len(PARTS)]):
        used += judge(row, seed)
    assert used


@pytest.mark.skipif(ON_A_GPU, reason="this is about one that takes its time")
@pytest.mark.parametrize("part", PARTS)
def test_copies_and_kernels_may_be_late(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory is used for something else before all that reads it has been waited for."""
    python_machine.install(monkeypatch, python_machine.LateMachine(part), GPU_STAGED=600)
    used = 0
    for seed, row in enumerate(rows(STREAMS | VALUES)[part :: 2 * len(PARTS)]):
        used += judge(row, seed)
    assert used


@pytest.mark.parametrize("chunk", [4, 1 << 16], ids=["in runs", "scanned"])
@pytest.mark.parametrize("part", PARTS)
def test_values(part: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types, values at the ends of types, NULL, conditions."""
    constants.replace(monkeypatch, GPU_CHUNK=chunk)
    for seed, row in enumerate(rows(VALUES)[part :: len(PARTS)]):
        case = str(row["case"])
        runs = unable(lower(CASES[case].plan)) is None
        assert runs == (case not in ON_THE_CPU), case
        used = judge(row | {"window": "time", "size": "7"}, seed)
        assert used == runs or case in WITHOUT_LIVE_TUPLES, case
