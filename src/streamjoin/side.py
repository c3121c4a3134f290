"""The two streams: `left` (the papers' R) and `right` (the papers' S)."""

from __future__ import annotations

from typing import Literal

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")


def other(side: Side) -> Side:
    return "right" if side == "left" else "left"
