"""One thread or several: the faster way is found, kept, and left when it is no longer the faster one."""

from __future__ import annotations

from streamjoin.topology.pace import LONGEST_PAUSE, MANY_SECONDS, TRIES, Pace

TUPLES, SECONDS = 10_000, 0.001


def run(pace: Pace, steps: int, alone: float, shared: float, tuples: int = TUPLES) -> int:
    """How many of some steps are shared, if each takes so long alone or shared."""
    count = 0
    for _ in range(steps):
        together = pace.shares(tuples, SECONDS)
        pace.note(tuples, together, shared if together else alone)
        count += together
    return count


def test_the_faster_way_is_found() -> None:
    assert run(Pace(), 1000, alone=2.0, shared=1.0) > 980
    assert run(Pace(), 1000, alone=1.0, shared=2.0) < 20


def test_several_threads_are_tried_first() -> None:
    assert Pace().shares(TUPLES, SECONDS)


def test_a_slow_first_step_does_not_decide() -> None:
    pace = Pace()
    run(pace, 1, alone=100.0, shared=100.0)
    assert run(pace, 500, alone=1.0, shared=2.0) < 20


def test_it_changes_its_mind() -> None:
    pace = Pace()
    run(pace, 4 * LONGEST_PAUSE, alone=1.0, shared=2.0)
    run(pace, 8 * LONGEST_PAUSE, alone=3.0, shared=2.0)
    assert run(pace, 500, alone=3.0, shared=2.0) > 490


def test_sizes_are_told_apart() -> None:
    pace = Pace()
    run(pace, 100, alone=1.0, shared=2.0)
    assert run(pace, 2 * TRIES, alone=2.0, shared=1.0, tuples=16 * TUPLES) == TRIES


def test_what_is_clear_is_not_tried() -> None:
    pace = Pace()
    assert not any(pace.shares(TUPLES, 0.00001) for _ in range(100))
    assert all(pace.shares(TUPLES, MANY_SECONDS) for _ in range(100))
