"""What a worker keeps from one micro-batch to the next, beside the rows of its segments.

These objects lie in the state store as plain data, so the names of their fields are part of the state's format
(`spec.FORMAT`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..arrays import INT64_MIN
from ..errors import StateError
from ..flow.order import History, MergedOrder
from ..integer_deque import IntegerDeque
from ..side import SIDES, Side
from ..window import CountWindow, TimeWindow
from . import pickled_state
from .plain import Plain
from .sealed_values import OLD_PICKLE, SealedState

NAME = "memory"
"""The name of the worker's state among the values of its `KeyedState`."""


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One segment: its name in the state store, the name of its file, and what it holds.

    It holds the rows [first, first + rows) of its side. None has a coordinate above `highest`. All were stored under
    one generation of splitters (see `router`).
    """

    name: str
    file: str
    first: int
    rows: int
    nbytes: int
    highest: int
    generation: int = 0


@dataclass(frozen=True, slots=True)
class MarksEntry:
    """One blob of marks (see `marks`): its name in the state store, and what it holds."""

    name: str
    count: int
    lowest: int
    highest: int


@dataclass(slots=True)
class SideState:
    """The segments of one side, oldest first.

    The rest is for rows that may be reported alone. `met` has a bit for each row of the segments, one segment after the
    other: whether the row has met a partner on this worker. Windows have closed below the coordinate `floor`.
    """

    segments: list[SegmentEntry] = field(default_factory=list)
    next_row: int = 0
    met: bytes = b""
    marks: list[MarksEntry] = field(default_factory=list)
    next_mark: int = 0
    floor: int = INT64_MIN

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.segments)


@dataclass(slots=True)
class WorkerState:
    """The join's terms, how far both streams have come, the segments of both sides, and the merged order if needed."""

    terms: dict[str, str]
    furthest: dict[Side, int | None] = field(default_factory=lambda: dict.fromkeys(SIDES))
    long_text: dict[Side, bool] = field(default_factory=lambda: dict.fromkeys(SIDES, False))
    held: dict[Side, SideState] = field(default_factory=lambda: {side: SideState() for side in SIDES})
    order: MergedOrder | None = None

    @classmethod
    def load(cls, state: SealedState, terms: dict[str, str]) -> WorkerState:
        """The state that the micro-batch before has left; a new one in the first. It must belong to the same join."""
        body = state.get(NAME)
        if body is None:
            return cls(terms)
        loaded = load_worker(body)
        for term, value in loaded.terms.items():
            if terms.get(term) != value:
                raise StateError(
                    f"{term}: the checkpoint belongs to a join with {value}, and the query now has {terms.get(term)}; "
                    "give the same again, or begin with a new checkpoint location"
                )
        return loaded

    def save(self, state: SealedState) -> None:
        state.put(NAME, STATES.dump(self))


STATES = Plain(
    {
        "worker": WorkerState, "side": SideState, "segment": SegmentEntry, "marks": MarksEntry, "order": MergedOrder,
        "history": History, "integers": IntegerDeque, "time": TimeWindow, "count": CountWindow,
    }
)  # fmt: skip


def load_worker(body: bytes | memoryview) -> WorkerState:
    """The state of a worker, also from a version that pickled it."""
    old = bytes(body[:1]) == OLD_PICKLE
    loaded = pickled_state.load(body) if old else STATES.load(body)
    if not isinstance(loaded, WorkerState):
        raise StateError(f"the state is damaged: a worker kept a {type(loaded).__name__}")
    return loaded
