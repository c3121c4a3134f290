"""The seam to a device that scans for a window, such as a GPU. A room above the store makes one; the store asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from .batch import Batch, PairSink
from .subwindow import Subwindow

Found = Callable[[PairSink], Iterator[int]]
"""Hands the pairs of a probe that has begun to a sink; gives the number of comparisons since the last time."""


class Device(Protocol):
    """Scans the subwindows of one side's window.

    Invariant: a probe reports what the subwindows' own scans would report, each pair once. The tuples stay in the
    subwindows, so that every step may be done there instead.
    """

    @property
    def is_sole(self) -> bool:
        """Whether every batch probes here, as long as this device does not fail."""

    def takes(self, tuples: int, batch: Batch, reached: Callable[[], int], on_cpu: Callable[[int], float]) -> bool:
        """Whether a batch had better probe here. `tuples` are stored; `reached` says how many pairs of a probing and a
        stored tuple lie in the windows, and `on_cpu` how many nanoseconds the scan of so many would take."""

    def takes_small(self, probes: int, tuples: int, on_cpu: Callable[[int, int], float]) -> bool:
        """Whether up to so many probing tuples may be worth a probe here."""

    def estimate(self, probes: float, reached: float) -> float:
        """Nanoseconds that a probe is likely to take here."""

    def is_ready(self) -> bool:
        """Whether it can be used now. If it could be later on, this begins to prepare it."""

    def begin(self, subwindows: Sequence[Subwindow], batch: Batch) -> Found:
        """Begin to find the stored tuples that match."""

    def clear(self) -> None:
        """The window lets all tuples go."""

    @property
    def nbytes(self) -> int:
        """What it takes of the main memory."""

    def figures(self) -> dict[str, Any]:
        """What it did, and why not more, for metrics."""
