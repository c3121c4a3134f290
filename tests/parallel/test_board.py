"""The board: every part is done once, by whatever thread, and full slots go on where they stopped."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from numba import carray  # type: ignore[attr-defined]

from streamjoin.compile.atomics import fetch_add
from streamjoin.compile.cache import compiled
from streamjoin.compile.intrinsics import pointer
from streamjoin.parallel import crew as module
from streamjoin.parallel.crew import Crew
from streamjoin.tasks import DONE, FULL, MORE, SLOT_WORDS, Job

from ..long import LONG

ROUNDS = 100_000 if LONG else 3_000


@compiled
def count(block, part, slot):  # type: ignore[no-untyped-def]
    """Count each part: block[1 + part] += 1."""
    numbers = carray(pointer(block), 64, np.int64)
    fetch_add(numbers, 1 + part, 1)
    return DONE


@compiled
def fill(block, part, slot):  # type: ignore[no-untyped-def]
    """A part puts 10 numbers into its slot, which holds 16; now and then it asks to be called again."""
    words = carray(pointer(slot), SLOT_WORDS, np.int64)
    while words[2] < 10:
        if words[1] == 16:
            return FULL
        words[16 + words[1]] = 10 * part + words[2]
        words[1] += 1
        words[2] += 1
        if words[2] % 4 == 0:
            return MORE
    words[2] = 0
    return DONE


@compiled
def fail(block, part, slot):  # type: ignore[no-untyped-def]
    return 0


@compiled
def wait(block, part, slot):  # type: ignore[no-untyped-def]
    """A part lasts until block[0] is set. block[1] is how many have begun."""
    numbers = carray(pointer(block), 64, np.int64)
    fetch_add(numbers, 1, 1)
    while fetch_add(numbers, 0, 0) == 0:
        pass
    return DONE


@compiled
def go_on(block, part, slot):  # type: ignore[no-untyped-def]
    """A part that is never done."""
    return MORE


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew(4, cores=4)
    yield made
    made.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("streamjoin_")]


def test_every_part_is_done_once(crew: Crew) -> None:
    blocks = [np.zeros(64, np.int64) for _ in range(3)]
    for number in range(ROUNDS):
        parts = [number % 5, number % 17, 1 + number % 3]
        for block in blocks:
            block[:] = 0
        crew.share([Job(count, block, many) for block, many in zip(blocks, parts, strict=True)])
        for block, many in zip(blocks, parts, strict=True):
            assert block[1 : 1 + many].tolist() == [1] * many
            assert not block[1 + many :].any()


@pytest.mark.parametrize("most", [1, 2, 4])
def test_full_slots_go_on_where_they_stopped(crew: Crew, most: int) -> None:
    for _ in range(ROUNDS // 100):
        slots = np.zeros((crew.workers, SLOT_WORDS), np.int64)
        found: list[int] = []
        for _ in crew.rounds([Job(fill, np.zeros(1, np.int64), 30)], slots, most):
            for slot in slots:
                found += slot[16 : 16 + slot[1]].tolist()
                slot[1] = 0
        assert sorted(found) == list(range(300))


@pytest.mark.parametrize("most", [1, 4])
def test_a_part_that_fails_is_an_error(crew: Crew, most: int) -> None:
    with pytest.raises(RuntimeError, match="failed"):
        crew.share([Job(fail, np.zeros(1, np.int64), 8)], most)


def test_what_a_part_uses_outlives_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller does not wait long for a part that another thread has begun, and lets go of what it knows."""
    crew, blocks = Crew(2, cores=2), [np.zeros(64, np.int64)]
    crew.share([Job(count, np.zeros(64, np.int64), 8)])

    def interrupted(board: np.ndarray, number: int) -> int:
        while not blocks[0][1]:
            time.sleep(0.001)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "GRACE", 0.05)
    monkeypatch.setattr(module, "work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        crew.share([Job(wait, blocks[0], 2)])
    monkeypatch.undo()
    used = weakref.ref(blocks[0])
    blocks.clear()
    gc.collect()
    left = used()
    assert left is not None
    left[0] = 1
    del left
    crew.close()
    del crew
    gc.collect()
    assert used() is None


def test_a_caller_does_not_wait_for_its_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody goes on with it after an interrupt."""
    crew, others, waited = Crew(2, cores=2), module.work, list[bool]()
    crew.share([Job(count, np.zeros(64, np.int64), 8)])

    def interrupted(board: np.ndarray, number: int) -> int:
        assert others(board, number) == MORE
        raise KeyboardInterrupt

    def finished(board: np.ndarray, taken: int) -> bool:
        waited.append(module_finished(board, taken))
        return waited[-1]

    module_finished = module.finished
    monkeypatch.setattr(module, "work", interrupted)
    monkeypatch.setattr(module, "finished", finished)
    with pytest.raises(KeyboardInterrupt):
        crew.share([Job(go_on, np.zeros(64, np.int64), 2)])
    assert waited[-1]
    crew.close()


def test_one_thread_needs_no_board(crew: Crew) -> None:
    """Also while another one uses it."""
    blocks = [np.zeros(64, np.int64) for _ in range(3)]
    slots = np.zeros((crew.workers, SLOT_WORDS), np.int64)
    for _ in crew.rounds([Job(fill, np.zeros(1, np.int64), 30)], slots):
        slots[:, 1] = 0
        for block in blocks:
            block[:] = 0
        crew.share([Job(count, block, many) for block, many in zip(blocks, (0, 1, 17), strict=True)], most=1)
        assert [block[1:].sum() for block in blocks] == [0, 1, 17]


def test_threads_sleep_and_are_woken_again(crew: Crew) -> None:
    block = np.zeros(64, np.int64)
    for _ in range(20):
        crew.share([Job(count, block, 8)])
        assert crew.run([lambda: 1, lambda: 2]) == [1, 2]
        threading.Event().wait(0.002)
    assert block[1:9].tolist() == [20] * 8


def test_a_job_in_a_task_does_not_wait_for_the_board(crew: Crew) -> None:
    block = np.zeros(64, np.int64)
    crew.run([lambda: crew.share([Job(count, block, 8)]) for _ in range(20)])
    assert block[1:9].tolist() == [20] * 8


def test_there_are_no_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores_here", lambda: 2)
    assert Crew(16).workers == 2
    assert Crew(1).workers == 1
