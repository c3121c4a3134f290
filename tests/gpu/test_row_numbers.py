"""Row numbers of places, counted or looked up."""

from __future__ import annotations

import numpy as np
import pytest

from streamjoin.gpu.pairs import take_in
from streamjoin.gpu.row_numbers import MIXED, NOTHING, RowNumbers
from streamjoin.store import PairSink

from .. import constants, interpreted


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, GPU_SHIFT=2, BUFFER=3, SPARE_BUFFERS=[])


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_those_that_were_written(seed: int) -> None:
    """Stretches come, grow, go and come again, and rows count up or do not."""
    rng = np.random.default_rng(seed)
    numbers, known, row = RowNumbers(60), dict[int, int](), 10**12
    free, used = [(start, start + 6) for start in range(0, 60, 6)], list[tuple[int, int]]()
    for turn in range(60):
        if free and (rng.random() < 0.6 or not used):
            start, end = free.pop(int(rng.integers(len(free))))
            used.append((start, end))
            for begin in range(start, end, 2):
                step = 1 if rng.random() < 0.7 else 3
                numbers.write(begin, row + step * np.arange(2))
                known |= {begin + k: row + step * k for k in range(2)}
                row += 2 * step
        else:
            start, end = used.pop(int(rng.integers(len(used))))
            numbers.free(start, end)
            free.append((start, end))
            for place in range(start, end):
                del known[place]
        if turn == 30:
            numbers.grow(80)
            free += [(60, 66), (66, 72)]
        sink, places = PairSink(), rng.permutation(np.array(list(known), np.int64))
        take_in((np.arange(len(places)) << 32) | places, 5 + np.arange(len(places) + 3), 3, numbers, sink)
        probing, stored = (np.concatenate([[], *rows]).tolist() for rows in sink.take())
        assert probing == list(range(8, 8 + len(places)))
        assert stored == [known[place] for place in places.tolist()]


def test_pieces_in_which_rows_count_up() -> None:
    numbers = RowNumbers(16)
    numbers.write(2, np.arange(100, 107))
    assert numbers.ahead[:4].tolist() == [98, 98, 98, NOTHING]
    numbers.write(9, np.array([50, 51]))
    assert numbers.ahead[:4].tolist() == [98, 98, MIXED, NOTHING]
    numbers.free(2, 9)
    assert numbers.ahead[:4].tolist() == [98, NOTHING, MIXED, NOTHING]
