"""One thread or several: the fastest number is found, kept, and left when it is no longer the fastest."""

from __future__ import annotations

from collections.abc import Callable

from streamjoin.topology.pace import LONGEST_PAUSE, PLENTY_SECONDS, TRIES, Pace

TUPLES, SECONDS = 10_000, 0.001


def run(pace: Pace, steps: int, takes: Callable[[int], float], tuples: int = TUPLES) -> list[int]:
    """How many workers each of some steps got, if a step takes that long with so many."""
    found = []
    for _ in range(steps):
        workers = pace.workers(tuples, SECONDS)
        pace.note(tuples, workers, takes(workers))
        found.append(workers)
    return found


def share_of(found: list[int], workers: int) -> float:
    return found.count(workers) / len(found)


def test_the_fastest_number_is_found() -> None:
    assert share_of(run(Pace(16), 1000, lambda workers: 1 / workers), 16) > 0.9
    assert share_of(run(Pace(16), 1000, lambda workers: workers), 1) > 0.9
    assert share_of(run(Pace(16), 1000, lambda workers: 4 / workers + workers), 2) > 0.9


def test_numbers_are_powers_of_two_and_the_largest() -> None:
    assert set(run(Pace(6), 1000, lambda workers: 1 / workers)) <= {1, 2, 4, 6}


def test_it_begins_with_as_many_as_have_enough_to_do() -> None:
    assert Pace(64).workers(TUPLES, SECONDS) == 8


def test_a_slow_first_step_does_not_decide() -> None:
    pace = Pace(2)
    run(pace, 1, lambda workers: 100.0)
    assert share_of(run(pace, 500, lambda workers: workers), 1) > 0.9


def test_it_changes_its_mind() -> None:
    pace = Pace(4)
    run(pace, 4 * LONGEST_PAUSE, lambda workers: workers)
    run(pace, 8 * LONGEST_PAUSE, lambda workers: 1 / workers)
    assert share_of(run(pace, 500, lambda workers: 1 / workers), 4) > 0.9


def test_sizes_are_told_apart() -> None:
    pace = Pace(2)
    run(pace, 100, lambda workers: workers)
    assert 2 in run(pace, 2 * TRIES, lambda workers: 1 / workers, tuples=16 * TUPLES)


def test_what_is_clear_is_not_tried() -> None:
    pace = Pace(4)
    assert {pace.workers(TUPLES, 0.00001) for _ in range(100)} == {1}
    assert {pace.workers(TUPLES, 4 * PLENTY_SECONDS) for _ in range(100)} == {4}
