"""Pairs keep their memory for as long as anybody looks at them, and no longer."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.arrays import Rows
from streamjoin.store.batch import PairSink
from streamjoin.store.pair_memory import PairMemory, whole_block

from .. import constants


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=40))
def test_no_two_rooms_overlap(asked: list[tuple[int, bool]]) -> None:
    memory, held = PairMemory(50), list[tuple[int, Rows]]()
    for number, (count, drop) in enumerate(asked):
        if drop and held:
            held.pop(0)
        room = memory.room(count)
        assert room.shape == (2, count)
        room[:] = number
        held.append((number, room))
    assert all((room == number).all() for number, room in held)


def test_a_block_is_used_again_when_its_last_array_is_gone() -> None:
    size = 12_345
    block = whole_block(size)
    address, part = block.ctypes.data, block[1, 5:9]
    part[:] = 7
    del block
    gc.collect()
    others = [whole_block(size) for _ in range(3)]
    assert address not in [other.ctypes.data for other in others]
    assert part.tolist() == [7] * 4
    del part, others
    gc.collect()
    assert address in [other.ctypes.data for other in [whole_block(size) for _ in range(4)]]


@pytest.mark.parametrize("left_probes", [True, False])
def test_a_sink_gives_back_what_kernels_wrote(left_probes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, BUFFER=64, SPARE_BUFFERS=[])
    expected = []
    sinks = [PairSink(left_probes=left_probes) for _ in range(2)]
    for number in range(60):
        sink, count, turned = sinks[number % 2], (number * 14) % 129, number % 3 == 0
        probing, stored = np.arange(count), np.arange(count) + number
        sink.row_buffers[:, :count] = [stored, probing] if turned else [probing, stored]
        sink.add_rows(count, turned)
        expected += zip(probing.tolist(), stored.tolist(), strict=True)
    assert sum(sink.count for sink in sinks) == len(expected)
    taken = [sink.take() for sink in sinks]
    left, right = ([row for pairs in taken for piece in pairs[k] for row in piece.tolist()] for k in (0, 1))
    pairs = zip(left, right, strict=True) if left_probes else zip(right, left, strict=True)
    assert sorted(pairs) == sorted(expected)
    assert all(sink.count == 0 and not sink.take()[0] for sink in sinks)
