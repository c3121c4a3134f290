"""Decides the candidate pairs that slots leave open: long texts with equal hashes, text functions, and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import Rows
from ..arrow.tables import contiguous
from ..side import SIDES, Side
from .expr import Call, Column, Expr, walk
from .frames import Frame, distinct
from .lower import Lowered
from .vector import Program

Take = Callable[[Side, Rows, list[str]], pa.Table]
"""Columns of some rows of one side."""
Which = npt.NDArray[np.bool_]
SameTexts = Callable[[str, str, Rows, Rows], "Which | None"]
"""Whether pairs of rows have the same text in a column of the left and one of the right. None: cannot be said."""


class Recheck:
    """Keeps the candidates for which the undecided conditions are true.

    `long_text` says which sides have had a text of over 7 bytes. Equal hashes can mislead only if both have.
    """

    def __init__(self, lowered: Lowered, take: Take, same_texts: SameTexts = lambda *_: None) -> None:
        self._take, self._same_texts = take, same_texts
        self.long_text: dict[Side, bool] = {"left": False, "right": False}
        always, sometimes = lowered.recheck, lowered.recheck_long_text
        self._always = Program(always) if always else None
        self._with_long_text = Program([*always, *sometimes]) if sometimes else self._always
        self._equal_columns = [pair for term in sometimes if (pair := _equal_columns(term)) is not None]
        """Columns whose texts can be compared where they lie. The other conditions are for `_rest`."""
        rest = [*always, *(term for term in sometimes if _equal_columns(term) is None)]
        self._rest = Program(rest) if rest else None
        self._columns: dict[Side, list[str]] = {side: _column_names([*always, *sometimes], side) for side in SIDES}

    def __call__(self, left: Rows, right: Rows) -> Which | None:
        """Which candidates match; None: all of them."""
        if not all(self.long_text.values()):
            return None if self._always is None else self._true_pairs(self._always, left, right)
        same = self._have_same_texts(left, right)
        if same is None:
            return None if self._with_long_text is None else self._true_pairs(self._with_long_text, left, right)
        if self._rest is not None:
            same[same] = self._true_pairs(self._rest, left[same], right[same])
        return None if same.all() else same

    def _have_same_texts(self, left: Rows, right: Rows) -> Which | None:
        """Whether the texts of equal columns are the same; None if there are no such columns, or it cannot be said."""
        same: Which | None = None
        for names in self._equal_columns:
            found = self._same_texts(*names, left, right)
            if found is None:
                return None
            same = found if same is None else same & found
        return same

    def _true_pairs(self, program: Program, left: Rows, right: Rows) -> Which:
        """For which pairs a program's conditions are true."""
        columns: dict[tuple[Side, str], pa.Array] = {}
        places: dict[Side, Rows] = {}
        candidates: tuple[tuple[Side, Rows], ...] = (("left", left), ("right", right))
        for side, rows in candidates:
            names = self._columns[side]
            if names:
                kept, place = distinct(rows) if side in program.per_row else (rows, None)
                if place is not None:
                    places[side] = place
                taken = self._take(side, kept, names)
                columns |= {(side, name): contiguous(taken.column(name)) for name in names}
        return program.true_rows(Frame(len(left), columns, places))


def slow_terms(lowered: Lowered) -> tuple[Expr, ...]:
    """The conditions of which a part is evaluated row by row for each candidate."""
    return tuple(term for term in lowered.recheck if Program([term]).slow)


def _equal_columns(term: Expr) -> tuple[str, str] | None:
    """The columns of the left and of the right that a term compares, if it says that two columns are equal."""
    if not isinstance(term, Call) or term.op != "eq":
        return None
    names = {node.side: node.name for node in term.args if isinstance(node, Column)}
    return (names["left"], names["right"]) if names.keys() == set(SIDES) else None


def _column_names(exprs: Iterable[Expr], side: Side) -> list[str]:
    return sorted({n.name for expr in exprs for n in walk(expr) if isinstance(n, Column) and n.side == side})
