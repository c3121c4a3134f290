"""The two streams: `left` (the papers' R) and `right` (the papers' S)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")
Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")


def other(side: Side) -> Side:
    return "right" if side == "left" else "left"


@dataclass(frozen=True, slots=True)
class BothSides(Generic[T]):
    """One thing for each side; it does not change."""

    left: T
    right: T

    def __getitem__(self, side: Side) -> T:
        return self.left if side == "left" else self.right
