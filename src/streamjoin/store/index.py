"""The seam of the store: what a subwindow does (`Index`), and what opens subwindows of one kind (`IndexKind`).

An index is one file. It defines a `KIND`, and `store.registry` names the file. Nobody else knows which indexes there
are: whatever differs between them is part of these protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from ..arrays import Integers, Rows, Words
from ..tasks import Job, RunAll, Walk
from .batch import Batch, PairSink, Probing
from .key_choice import KeyChooser
from .keyspace import KeySpace
from .stored_side import StoredSide
from .words import WordIndex

Needs = Literal["nothing", "equality", "order"]
"""What an index asks of the predicate: nothing, an equality between both streams, or a key to sort by (an equality, a
band or a range)."""


class Index(Protocol):
    """One subwindow: tuples, and a structure to find them by.

    Invariant: a probe reports the stored tuples that match and whose coordinate lies in the probing tuple's
    [low, high), each of them once. One thread inserts and prepares; several may probe at once while none inserts.
    `store.subwindow.Subwindow` implements everything but `probe`.
    """

    name: str

    divisible: bool
    """Whether `probe` can look at one part of the tuples alone (`Probing.part`). If not, it looks at all of them, and a
    window is divided by whole subwindows."""

    # -- tuples ----------------------------------------------------------------------------------------------------

    @property
    def tuples(self) -> int:
        """How many tuples there are."""

    def at_least(self, coordinate: int) -> int:
        """How many of them lie at or above a coordinate."""

    def rows(self, low: int, high: int) -> Rows:
        """The row numbers of those at coordinates [low, high), if coordinates count up."""

    @property
    def room(self) -> int:
        """How many more tuples fit in."""

    @property
    def highest(self) -> int:
        """The largest coordinate."""

    @property
    def first_row(self) -> int:
        """The smallest row number."""

    def insert(self, batch: Batch) -> None:
        """Add tuples; the caller has checked that they fit."""

    def inserting(self, batch: Batch) -> Walk:
        """`insert` in stages."""

    def preparing(self) -> Walk:
        """`prepare` in stages."""

    def sealing(self) -> Walk:
        """`seal` in stages."""

    def prepare(self) -> None:
        """Index what was inserted: it is about to be probed."""

    def seal(self) -> None:
        """No more tuples will be inserted."""

    def release(self) -> None:
        """All tuples have expired."""

    def as_batch(self) -> Batch:
        """All tuples, to be stored elsewhere."""

    # -- probes ----------------------------------------------------------------------------------------------------

    def reached(self, low: Integers, high: Integers) -> tuple[int, int]:
        """How many tuples lie in the windows [low, high), or a few more: their sum over all windows, and how many there
        are from the first place that any window reaches to the last."""

    def computing_ahead(self, probing: Probing, workers: int) -> Walk:
        """Compute in stages what all shares of a batch will need, before it is split; several workers may help."""

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        """Find the stored tuples that match, but for those that `probe_group` will find.

        Gives the number of comparisons since the last time, each time the sink was filled further.
        """

    @property
    def group(self) -> Hashable | None:
        """Subwindows of an equal group are probed together after each was probed alone; None: this one is not."""

    def scan_jobs(self, probing: Probing, parts: int, left_probes: bool, by_stored: bool) -> list[Job] | None:
        """What `probe` does as jobs that fill `pair_slots`. `by_stored`: they share the stored tuples. None: call
        `probe`."""

    def probe_group(self, group: Sequence[Self], probing: Probing, sink: PairSink) -> Iterator[int]:
        """Find what is left in all subwindows of this one's group, in one call."""

    def group_jobs(self, group: Sequence[Self], probing: Probing, parts: int, left_probes: bool) -> list[Job] | None:
        """The same as jobs, each of so many parts, that fill `pair_slots`. None: call `probe_group`."""

    @property
    def beside_group(self) -> bool:
        """Whether `probe` may find something, which `probe_group` does not."""

    # -- keys and words --------------------------------------------------------------------------------------------

    @property
    def key(self) -> str | None:
        """The key that tuples are sorted by, as a text for people; None if there is none."""

    def words_in(self, space: KeySpace) -> WordIndex | None:
        """The words of this subwindow, if it has some and they belong to this key space."""

    # -- other processes -------------------------------------------------------------------------------------------

    def attach(self, stored: StoredSide, keys: KeyChooser) -> None:
        """Make a sealed subwindow usable that comes from another window, maybe of another process.

        Sealed subwindows can be pickled. What belongs to a process (kernels, threads, the chooser) stays behind.
        """

    # -- figures ---------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int: ...

    def figures(self) -> dict[str, Any]:
        """What is worth knowing about the structure, for metrics."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a new subwindow may ask for."""

    capacity: int
    stored: StoredSide
    keys: KeyChooser
    window: int
    """Tuples of the whole window."""
    previous: Index | None
    """The subwindow before this one."""
    run_all: RunAll
    spare: list[Words]
    """Arrays that expired subwindows of this window have left."""


@dataclass(frozen=True, slots=True)
class IndexKind:
    """A kind of index. `open` makes an empty subwindow."""

    name: str
    needs: Needs
    open: Callable[[Opening], Index]
    how: str
    """How tuples are found, as a text for people that follows the name."""
    scanned: bool = False
    """Every probe looks at all tuples. Small subwindows are of no use then, and nothing needs to be known of keys."""
