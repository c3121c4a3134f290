"""How far each stream has come, which tuples are late, and what can be promised about the future."""

from __future__ import annotations

from ..arrays import INT64_MIN, Mask
from ..arrow.times import Times
from ..side import Side, other


class Progress:
    """The furthest timestamp of each stream: low-latency handshake join's high water marks (section 6.1.1), since a
    step ends when all that was pushed has come to the end of its way.

    A tuple is late if it is more than `lateness` behind the furthest timestamp that earlier batches of its stream
    brought. So every future tuple of a stream has a timestamp of at least `horizon(side)`. A stream that is more than
    `idle` behind the other one counts as having come to the other's furthest timestamp less `idle`: so a silent stream
    does not hold time back. Only timestamps count, so it is the same whenever and wherever it is computed again.
    """

    def __init__(self, lateness: int, idle: int | None = None) -> None:
        self.lateness, self._idle = lateness, idle
        self.furthest: dict[Side, int | None] = {"left": None, "right": None}

    def reached(self, side: Side) -> int | None:
        """How far a stream counts as having come."""
        own, others = self.furthest[side], self.furthest[other(side)]
        if self._idle is None or others is None:
            return own
        return others - self._idle if own is None else max(own, others - self._idle)

    def horizon(self, side: Side) -> int | None:
        """No future tuple of this stream is earlier; None before its first."""
        reached = self.reached(side)
        return None if reached is None else max(reached - self.lateness, INT64_MIN)

    def is_ahead(self, side: Side) -> bool:
        """Whether this stream has come further than the other one."""
        own, others = self.furthest[side], self.furthest[other(side)]
        return own is not None and (others is None or others < own)

    @property
    def watermark(self) -> int | None:
        """No future tuple of either stream, and so no future result, is earlier."""
        left, right = self.horizon("left"), self.horizon("right")
        return None if left is None or right is None else min(left, right)

    def on_time(self, side: Side, times: Times) -> Mask | None:
        """Which tuples of a new batch are not late; None if none is."""
        horizon = self.horizon(side)
        if horizon is None or times.earliest >= horizon:
            return None
        return times.ticks >= horizon

    def advance(self, side: Side, times: Times) -> None:
        if len(times.ticks):
            self.reach(side, times.latest)

    def reach(self, side: Side, time: int) -> None:
        """A stream has come to this time."""
        furthest = self.furthest[side]
        self.furthest[side] = time if furthest is None else max(furthest, time)
