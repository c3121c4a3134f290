"""Decides the candidate pairs that slots leave open: long texts with equal hashes, text functions, and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import Rows
from ..arrow.tables import contiguous
from ..side import SIDES, Side
from .expr import Column, Expr, walk
from .frames import Frame, distinct
from .lower import Lowered
from .vector import Program

Take = Callable[[Side, Rows, list[str]], pa.Table]
"""Columns of some rows of one side."""


class Recheck:
    """Keeps the candidates for which the undecided conditions are true.

    `long_text` says which sides have had a text of over 7 bytes. Equal hashes can mislead only if both have.
    """

    def __init__(self, lowered: Lowered, take: Take) -> None:
        self._take = take
        self.long_text: dict[Side, bool] = {"left": False, "right": False}
        always, sometimes = lowered.recheck, lowered.recheck_long_text
        self._always = Program(always) if always else None
        self._with_long_text = Program([*always, *sometimes]) if sometimes else self._always
        self._columns: dict[Side, list[str]] = {side: _column_names([*always, *sometimes], side) for side in SIDES}

    def __call__(self, left: Rows, right: Rows) -> npt.NDArray[np.bool_] | None:
        """Which candidates match; None: all of them."""
        program = self._with_long_text if all(self.long_text.values()) else self._always
        if program is None:
            return None
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


def _column_names(exprs: Iterable[Expr], side: Side) -> list[str]:
    return sorted({n.name for expr in exprs for n in walk(expr) if isinstance(n, Column) and n.side == side})
