"""What a worker keeps from one micro-batch to the next, beside the rows of its segments.

These objects lie in the state store as plain data, so the names of their fields are part of the state's format
(`spec.FORMAT`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..arrays import INT64_MIN
from ..flow.order import History, MergedOrder
from ..integer_deque import IntegerDeque
from ..side import SIDES, Side
from ..window import CountWindow, TimeWindow
from .plain import Plain
from .sealed_values import SealedState
from .spec import JoinSpec
from .stored_states import loaded
from .terms import check_terms

NAME = "memory"
"""The name of the worker's state among the values of its `KeyedState`."""
MARK = 24
"""The bytes of a mark."""


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

    @property
    def nbytes(self) -> int:
        """The size of the rows and of what is kept about them, but for the columns of partners (`match`)."""
        return (
            sum(entry.nbytes for entry in self.segments) + len(self.met) + sum(MARK * one.count for one in self.marks)
        )


@dataclass(slots=True)
class WorkerState:
    """The join's terms, how far both streams have come, the segments of both sides, and the merged order if needed."""

    terms: dict[str, str]
    furthest: dict[Side, int | None] = field(default_factory=lambda: dict.fromkeys(SIDES))
    long_text: dict[Side, bool] = field(default_factory=lambda: dict.fromkeys(SIDES, False))
    held: dict[Side, SideState] = field(default_factory=lambda: {side: SideState() for side in SIDES})
    order: MergedOrder | None = None

    @classmethod
    def load(cls, state: SealedState, spec: JoinSpec) -> WorkerState:
        """The state that the micro-batch before has left; a new one in the first. It must belong to the same join."""
        body = state.get(NAME)
        if body is None:
            return cls(spec.terms)
        kept = loaded(body, STATES, cls)
        check_terms(kept.terms, spec)
        kept.terms = spec.terms
        return kept

    def save(self, state: SealedState) -> None:
        state.put(NAME, STATES.dump(self))


STATES = Plain(
    {
        "worker": WorkerState, "side": SideState, "segment": SegmentEntry, "marks": MarksEntry, "order": MergedOrder,
        "history": History, "integers": IntegerDeque, "time": TimeWindow, "count": CountWindow,
    }
)  # fmt: skip
