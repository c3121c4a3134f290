"""Deciding candidate pairs that slots cannot: long texts with equal hashes, wide decimals, and the like."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrow import Payload, contiguous
from .expr import SIDES, Column, Expr, Side, walk
from .lower import Lowered
from .vector import Frame, Program

RECHECK_ROWS = 1 << 16
"""Candidates that are looked at together: their columns are gathered, so memory stays bounded."""

Rows = npt.NDArray[np.int64]


class Recheck:
    """Keeps the candidates for which the undecided conditions are true.

    `long_text` says on which sides a text of over 7 bytes has been seen: only if on both can equal hashes mislead.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.long_text: dict[Side, bool] = {"left": False, "right": False}
        always, sometimes = lowered.recheck, lowered.recheck_long_text
        self._always = Program(always) if always else None
        self._with_long_text = Program([*always, *sometimes]) if sometimes else self._always
        self._columns: dict[Side, list[str]] = {side: _column_names([*always, *sometimes], side) for side in SIDES}

    def __call__(self, left: Rows, right: Rows, payload: dict[Side, Payload]) -> tuple[Rows, Rows]:
        program = self._with_long_text if all(self.long_text.values()) else self._always
        if program is None or not len(left):
            return left, right
        keep = np.empty(len(left), np.bool_)
        for start in range(0, len(left), RECHECK_ROWS):
            rows: dict[Side, Rows] = {
                "left": left[start : start + RECHECK_ROWS],
                "right": right[start : start + RECHECK_ROWS],
            }
            columns: dict[tuple[Side, str], pa.Array] = {}
            for side, names in self._columns.items():
                if names:
                    taken = payload[side].take(rows[side], names)
                    columns |= {(side, name): contiguous(taken.column(name)) for name in names}
            keep[start : start + RECHECK_ROWS] = program.true_rows(Frame(len(rows["left"]), columns))
        return left[keep], right[keep]


def _column_names(exprs: Iterable[Expr], side: Side) -> list[str]:
    return sorted({n.name for expr in exprs for n in walk(expr) if isinstance(n, Column) and n.side == side})
