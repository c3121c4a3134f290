"""Which places of an array are free."""

from __future__ import annotations


class Space:
    """Invariant: places that were taken and not given back belong to one taker each."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._free: list[tuple[int, int]] = [(0, room)]
        """First place and the one behind the last, ascending; no two of them touch."""

    def take(self, size: int) -> int | None:
        """The first of so many places; None if there are not enough in a row."""
        for number, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[number : number + 1] = [(start + size, end)] if end - start > size else []
                return start
        return None

    def give_back(self, start: int, end: int) -> None:
        joined: list[tuple[int, int]] = []
        for begin, stop in sorted([*self._free, (start, end)]):
            if joined and joined[-1][1] == begin:
                joined[-1] = joined[-1][0], stop
            else:
                joined.append((begin, stop))
        self._free = joined

    def grow(self, size: int) -> None:
        """Make room for so many more at least."""
        room = max(2 * self.room, self.room + size)
        self.give_back(self.room, room)
        self.room = room
