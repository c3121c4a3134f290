"""The protocol of the board in plain Python, one atomic step at a time, under every schedule of a few threads."""

from __future__ import annotations

from collections.abc import Iterator

from streamjoin.lab.schedules import Choose, all_schedules, chosen_by

from ..long import LONG

ROUNDS = (2, 3)
"""The parts of each round."""


class Board:
    """The words of `parallel.board` that the protocol is about. A ticket is (round, parts, next)."""

    def __init__(self) -> None:
        self.ticket = (0, 0, 0)
        self.finished = 0
        self.description = 0
        """The round whose jobs are described."""
        self.done: list[tuple[int, int, int]] = []
        """The round that a part was taken in, the description that it was done by, and the part."""

    def take(self) -> tuple[int, int] | None:
        """One atomic addition: the round and the part that was taken, if there was one."""
        round_, parts, following = self.ticket
        self.ticket = (round_, parts, following + 1)
        return (round_, following) if following < parts else None


def helper(board: Board) -> Iterator[None]:
    for _ in range(2 * sum(ROUNDS)):
        yield
        _, parts, following = board.ticket  # only a look
        yield
        if following >= parts:
            continue
        taken = board.take()
        yield
        if taken is None:
            continue
        described = board.description
        yield
        board.done.append((taken[0], described, taken[1]))
        yield
        board.finished += 1


def caller(board: Board) -> Iterator[None]:
    for round_, parts in enumerate(ROUNDS, 1):
        board.description, board.finished = round_, 0
        yield
        board.ticket = (round_, parts, 0)
        yield
        while (taken := board.take()) is not None:
            yield
            board.done.append((taken[0], board.description, taken[1]))
            yield
            board.finished += 1
            yield
        while board.finished < parts:
            yield


def run(choose: Choose, helpers: int) -> None:
    board = Board()
    main = caller(board)
    others = [helper(board) for _ in range(helpers)]
    going: list[Iterator[None]] = [main, *others]
    waited = 0
    while main in going:
        thread = going[choose(len(going))] if waited < 50 else going[-1]  # one that waits for ever proves nothing
        waited += 1
        if next(thread, "over") == "over":
            going.remove(thread)
            waited = 0
    expected = [(round_, round_, part) for round_, parts in enumerate(ROUNDS, 1) for part in range(parts)]
    assert sorted(board.done) == expected


def test_every_part_is_done_once_by_its_own_description() -> None:
    for choose in all_schedules(most=200_000 if LONG else 20_000):
        run(choose, helpers=1)


def test_so_it_is_with_more_threads() -> None:
    for seed in range(20_000 if LONG else 1_000):
        run(chosen_by(seed), helpers=3)
