"""The peers find what a comparison of all pairs finds, with windows that fill up, overflow and turn over."""

from __future__ import annotations

import numpy as np
import pytest

from streamjoin.bench.columns import Columns, Rows
from streamjoin.bench.peers import PEERS, duckdb_peer, polars_peer
from streamjoin.bench.peers.base import Peer, package
from streamjoin.bench.peers.duckdb_peer import DuckDB, DuckDBBinned
from streamjoin.bench.peers.numpy_peer import NumPy
from streamjoin.bench.peers.polars_peer import Polars
from streamjoin.errors import ArgumentError

pytestmark = pytest.mark.bench

WIDTH = {"equality": 0, "band": 3, "celljoin": 10}
CASES = [(kind, peer) for kind, some in PEERS.items() for peer in some]

COMPARE_ALL = [("celljoin", DuckDB), ("celljoin", Polars)]
"""These take too long for more than a few tuples."""


def stream(rng: np.random.Generator, kind: str, count: int, numbers: int) -> Columns:
    """Keys so close together that many pairs match."""
    if kind == "celljoin":
        keys = rng.integers(1, 120, count).astype(np.int32)
        return keys, (rng.integers(128, 128 * 120, count) / 128).astype(np.float32)
    return rng.integers(-150, 150, count).astype(np.int32), np.arange(numbers, numbers + count, dtype=np.int32)


class AllPairs:
    """The semantics, spelled out."""

    def __init__(self, window: int, kind: str, width: int) -> None:
        self.window, self.kind, self.width = window, kind, width
        self.left: list[tuple[float, float]] = []
        self.right: list[tuple[float, float]] = []

    def step(self, left: Columns, right: Columns) -> list[list[tuple[float, ...]]]:
        first = self.pairs(_tuples(left), self.right)
        self.left = (self.left + _tuples(left))[-self.window :]
        second = self.pairs(self.left, _tuples(right))
        self.right = (self.right + _tuples(right))[-self.window :]
        return [first, second]

    def pairs(self, left: list[tuple[float, float]], right: list[tuple[float, float]]) -> list[tuple[float, ...]]:
        two = self.kind == "celljoin"
        return sorted(
            (*l, *r)
            for l in left
            for r in right
            if abs(l[0] - r[0]) <= self.width and (not two or abs(l[1] - r[1]) <= self.width)
        )


def _tuples(columns: Columns) -> list[tuple[float, float]]:
    return list(zip(columns[0].tolist(), columns[1].tolist(), strict=True))


def _sorted(rows: Rows) -> list[tuple[float, ...]]:
    return sorted(zip(*(column.tolist() for column in rows), strict=True))


@pytest.mark.parametrize(("kind", "peer"), CASES, ids=[f"{kind}-{peer.name}" for kind, peer in CASES])
@pytest.mark.parametrize(("filled", "large"), [(0, False), (130, True), (500, False), (500, True)])
def test_rows_are_those_of_all_pairs(
    kind: str, peer: type[Peer], filled: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (duckdb_peer, polars_peer):
        monkeypatch.setattr(module, "LARGE", 100 if large else 1_000)
    rng = np.random.default_rng(filled)
    window, width = 200, WIDTH[kind]
    check, tested = AllPairs(window, kind, width), peer(window, kind, width)
    left, right = stream(rng, kind, filled, 0), stream(rng, kind, filled, 0)
    check.left, check.right = _tuples(left)[-window:], _tuples(right)[-window:]
    tested.fill(left, right)
    pairs, numbers = 0, filled
    for sizes in [(40, 30), (1, 60), (70, 70), (0, 25), (25, 0), (150, 90), (300, 20), (30, 450), (40, 40), (60, 50)]:
        left, right = (stream(rng, kind, size, numbers) for size in sizes)
        numbers += max(sizes)
        count = tested.step(left, right)
        expected = check.step(left, right)
        assert list(map(_sorted, tested.rows())) == expected
        assert count == sum(map(len, expected))
        pairs += count
    assert pairs > 500


@pytest.mark.parametrize(("kind", "peer"), [case for case in CASES if case not in COMPARE_ALL])
def test_peers_agree_at_a_larger_size(kind: str, peer: type[Peer]) -> None:
    """Fewer matches, more tuples: threads and chunks come into play."""
    rng = np.random.default_rng(7)
    window, batch, width = 20_000, 3_000, {"equality": 0, "band": 40, "celljoin": 10}[kind]

    def fresh(count: int) -> Columns:
        if kind == "celljoin":
            keys, other = rng.integers(1, 2_001, count), rng.integers(128, 128 * 2_000, count) / 128
            return keys.astype(np.int32), other.astype(np.float32)
        return rng.integers(-(10**6), 10**6, count).astype(np.int32), rng.integers(0, 10**6, count).astype(np.int32)

    reference, tested = NumPy(window, kind, width), peer(window, kind, width)
    start = fresh(window), fresh(window)
    reference.fill(*start)
    tested.fill(*start)
    for _ in range(3):
        both = fresh(batch), fresh(batch)
        assert tested.step(*both) == reference.step(*both) > 0
        for one, two in zip(tested.rows(), reference.rows(), strict=True):
            assert _sorted(one) == _sorted(two)


def test_arguments() -> None:
    with pytest.raises(ArgumentError, match="kind: 'like' is none of"):
        NumPy(10, "like")
    with pytest.raises(ArgumentError, match="window: 0"):
        NumPy(0, "band")
    with pytest.raises(ArgumentError, match="without bins"):
        DuckDBBinned(10, "equality")
    with pytest.raises(ArgumentError, match="int64, int32 given, int32, int32 needed"):
        NumPy(10, "band").fill((np.zeros(1, np.int64), np.zeros(1, np.int32)), (np.zeros(1), np.zeros(1)))


def test_a_missing_package() -> None:
    with pytest.raises(ArgumentError, match=r"no_such_package is not installed; `pip install 'streamjoin\[dev\]'"):
        package("no_such_package")
