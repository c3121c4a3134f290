"""Which index a new subwindow gets, when the user leaves it open."""

from __future__ import annotations

from dataclasses import dataclass

from .chain import Index
from .choice import SideKeys


@dataclass(frozen=True, slots=True)
class Advice:
    index: str
    why: str


class Advisor:
    """Watches batch sizes, selectivity and drift of one side."""

    def __init__(self, index: str, has_equality: bool, keys: SideKeys) -> None:
        self._index, self._has_equality, self._keys = index, has_equality, keys

    @property
    def name(self) -> str:
        return self._index

    @property
    def why(self) -> str:
        return "nothing is stored yet"

    def inserted(self, count: int) -> None:
        pass

    def advise(self, window: int, previous: Index | None) -> Advice:
        if self._index != "auto":
            if self._index in ("bi-sort", "rap-table", "wib-tree") and not self._keys.usable:
                return Advice("scan", "no key on this side")
            return Advice(self._index, "asked for")
        if not self._keys.usable:
            return Advice("scan", "no key")
        return Advice("bi-sort", "default")
