"""The plan: what in a predicate an index can use, and what is left to check per candidate pair.

`Plan` is the seam between the predicate and everything that runs it (kernels, Spark, hardware). Its invariant:
a pair matches iff both tuples pass their side's filter and every pair condition is true. `equalities` and `bands`
describe *necessary* conditions found among the pair conditions; where one is `exact` it also replaces them. `analyse`
makes plans.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..side import Side
from .expr import Expr


@dataclass(frozen=True, slots=True)
class Equality:
    """`left` (over left columns) equals `right` (over right columns): a hash key. Always exact."""

    left: Expr
    right: Expr
    source: Expr


@dataclass(frozen=True, slots=True)
class Interval:
    """low <= key <= high, or < where not closed; None is no bound. Bounds read the probing side only."""

    low: Expr | None = None
    low_closed: bool = True
    high: Expr | None = None
    high_closed: bool = True


@dataclass(frozen=True, slots=True)
class Band:
    """Stored tuples can match only if `key` lies in one of the intervals that the probing tuple gives.

    Where not `exact`, candidates must be rechecked. `terms` are the summands that were moved from one side of a
    comparison to the other, empty if none was: the band then holds only for tuples for which adding them up neither
    overflows nor rounds (`l.a - r.a <= 3` is true for the largest l.a and r.a = -10, because integers wrap).
    `keys.range_keys` says how such a band is used.
    """

    stored: Side
    key: Expr
    intervals: tuple[Interval, ...]
    exact: bool
    sources: tuple[Expr, ...]
    terms: tuple[Expr, ...] = ()

    @property
    def kind(self) -> str:
        """ "band" where every interval is bounded on both sides, else "range"."""
        bounded = all(i.low is not None and i.high is not None for i in self.intervals)
        return "band" if bounded else "range"


@dataclass(frozen=True, slots=True)
class Plan:
    """An analysed predicate; see the module's docstring for the invariant."""

    predicate: Expr
    filters: tuple[tuple[Expr, ...], tuple[Expr, ...]]
    pair: tuple[Expr, ...]
    equalities: tuple[Equality, ...]
    bands: tuple[Band, ...]

    def filter_of(self, side: Side) -> tuple[Expr, ...]:
        return self.filters[side == "right"]

    def band_of(self, stored: Side) -> Band | None:
        """The most selective-looking band for probing the stored side: bands before one-sided ranges."""
        candidates = [band for band in self.bands if band.stored == stored]
        return min(candidates, key=lambda b: (b.kind != "band", not b.exact, len(b.intervals)), default=None)

    @property
    def kind(self) -> str:
        """What an index could use best: "equality", "band", "range" or "none"."""
        if self.equalities:
            return "equality"
        kinds = {band.kind for band in self.bands}
        return "band" if "band" in kinds else "range" if kinds else "none"

    def residual(self, stored: Side) -> tuple[Expr, ...]:
        """The pair conditions that remain after the equality keys and the stored side's band."""
        covered = {equality.source for equality in self.equalities}
        band = self.band_of(stored)
        if band is not None and band.exact:
            covered.update(band.sources)
        return tuple(term for term in self.pair if term not in covered)
