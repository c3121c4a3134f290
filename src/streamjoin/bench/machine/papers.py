"""The papers' figures of joins on many cores, as far as their texts state them (`papers.json`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class PaperFigure:
    paper: str
    section: str
    kind: str
    """The predicate, by the name of our streams."""
    text: str
    cores: int | None = None
    """Threads that join; None if the text does not say."""
    tuples_per_second: float | None = None
    of: str = ""
    """Whether a rate is of each stream or of both, if the text says so."""
    window_seconds: float | None = None
    window: int | None = None
    """Tuples of a stream's window."""
    comparisons_per_second: float | None = None

    @property
    def comparisons(self) -> float | None:
        """Comparisons per second, as stated, or by ScaleJoin's formula (section II) from the rate of each stream."""
        if self.comparisons_per_second is not None:
            return self.comparisons_per_second
        if self.tuples_per_second is None or self.window_seconds is None or self.of != "each stream":
            return None
        return 2 * self.window_seconds * self.tuples_per_second**2

    @property
    def figure(self) -> str:
        """The figure in words."""
        parts = []
        if self.comparisons_per_second is not None:
            parts.append(f"{self.comparisons_per_second / 1e9:g} G comparisons/s")
        if self.tuples_per_second is not None:
            of = {"not said": "", "": ""}.get(self.of, f" of {self.of}")
            parts.append(f"{self.tuples_per_second:,.0f} tuples/s{of}")
        return ", ".join(parts)


@cache
def stated() -> tuple[PaperFigure, ...]:
    text = files(__package__).joinpath("papers.json").read_text(encoding="utf-8")
    return tuple(PaperFigure(**entry) for entry in json.loads(text))
