"""How a predicate was understood: what an index can use of it, and what is left to check per candidate pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..arguments import checked_names
from ..arrow.tables import as_schema
from ..gpu.scan import described_device
from ..predicate import Predicate, check_aliases
from ..predicate.expr import Expr
from ..predicate.lower import Lowered
from ..predicate.plan import Band, Interval, Plan
from ..predicate.recheck import slow_terms
from ..predicate.render import render
from ..side import SIDES, Side, other
from ..store.index_choice import paths, usual_index
from ..store.key_choice import KeyChooser
from ..store.registry import INDEXES
from .options import Match, Options
from .planning import planned

WIDTH = 12


@dataclass(frozen=True)
class Explanation:
    """Prints for a person; the attributes say the same to a program, conditions as SQL text."""

    plan: Plan
    aliases: tuple[str, str]
    kind: str
    """What an index could use best: "equality", "band", "range" (bounded on one side) or "none"."""
    predicate: str
    equalities: tuple[str, ...]
    bands: Mapping[Side, str]
    """By stored side: where the key of a stored tuple must lie for a probing one; absent where there is none."""
    residual: Mapping[Side, tuple[str, ...]]
    """By stored side: what remains to be checked for each candidate that the keys leave."""
    filters: Mapping[Side, tuple[str, ...]]
    """By side: what is asked of that stream alone."""
    recheck: tuple[str, ...]
    """What compiled code narrows down but cannot decide: it is checked again for each candidate."""
    row_by_row: tuple[str, ...]
    """Those of `recheck` for which each candidate is checked by itself, in Python: very slow."""
    recheck_long_text: tuple[str, ...]
    """The same, but only where both texts have over 7 bytes."""
    slots: Mapping[Side, tuple[str, ...]]
    """By side: the numbers that compiled code keeps of each tuple."""
    keys: Mapping[Side, str]
    """By stored side: what an ordered index sorts by, to begin with; empty where there is nothing."""
    index: str
    """The index that runs it: the one that was asked for, or what "auto" picks for all but short windows."""
    device: str
    """What scans windows: "cpu", or "gpu" and when."""
    match: Match
    """Which of a left row's partners are reported."""
    paths: Mapping[str, str]
    """What "auto" chooses from, by what it costs on this machine; empty if an index was asked for."""

    def __str__(self) -> str:
        lines = [_line("predicate", self.predicate)]
        if self.match != "all":
            lines.append(_line("match", f"{self.match}: {_MATCHES[self.match]}"))
        lines += [_line("best key", _KINDS[self.kind])]
        lines += _listing("", self.equalities)
        lines += [_line("index", self._index())]
        lines += [_line("device", self.device)] * (self.device != "cpu")
        lines += _listing("paths", [f"{name}: {cost}" for name, cost in self.paths.items()])
        for stored in SIDES:
            lines += ["", f"{stored} stored, {other(stored)} probes"]
            lines += _listing("equality", self.equalities) if self.equalities else []
            band = self.plan.band_of(stored)
            if band is not None:
                lines += [_line("range" if band.kind == "range" else "band", self.bands[stored])]
                lines += [_line("", _EXACT if band.exact else _INEXACT)]
            if band is None and not self.equalities:
                lines += [_line("key", "none: every pair in the window is a candidate")]
            lines += _listing("residual", self.residual[stored] or ("nothing",))
        lines += ["", "each stream alone"]
        for side in SIDES:
            lines += _listing(f"{side} filter", self.filters[side] or ("none",))
        lines += ["", "execution", *self._execution()]
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _index(self) -> str:
        kind = INDEXES[self.index]
        if kind.needs != "order":
            return f"{kind.name}{kind.how}"
        sides = [f"{side} stored: {self.keys[side] or 'none, so it is scanned'}" for side in SIDES]
        return f"{kind.name}{kind.how} ({'; '.join(sides)})"

    def _execution(self) -> list[str]:
        kept = " and ".join(
            f"{len(self.slots[side])} per {side} tuple ({', '.join(self.slots[side]) or 'none'})" for side in SIDES
        )
        lines = [_line("compiled", f"over numbers kept in columns: {kept}")]
        rechecked = [text for text in self.recheck if text not in self.row_by_row]
        if rechecked:
            lines += _listing("in columns", rechecked)
            lines += [_line("", "compiled code only narrows these down; candidates are checked again, many at a time,")]
            lines += [_line("", "at 0.05 to 1 microsecond each")]
        if self.row_by_row:
            lines += _listing("row by row", self.row_by_row)
            lines += [_line("", "slow: up to some 20 microseconds for each candidate that the other conditions leave")]
        if self.recheck_long_text:
            lines += _listing("long text", self.recheck_long_text)
            lines += [_line("", "compared by hash; checked again where both texts have over 7 bytes")]
        return lines


_KINDS = {
    "equality": "equality",
    "band": "band: intervals bounded on both sides",
    "range": "range: intervals open on one side",
    "none": "none",
}
_MATCHES = {
    "latest": "of a left row's partners the last one that is not younger",
    "nearest": "of a left row's partners the one closest in time",
}
_EXACT = "exact: it replaces the conditions it comes from"
_INEXACT = "rounded outwards: its arithmetic was rearranged, so each candidate is checked again"


@checked_names
def explain(
    left: Any,
    right: Any,
    *,
    on: Predicate,
    aliases: Sequence[str] | None = None,
    window: Any = None,
    time: Any = None,
    lateness: Any = 0,
    how: Any = "inner",
    match: Any = "all",
    algorithm: Any = "auto",
    index: Any = "auto",
    workers: Any = None,
    device: Any = "auto",
    order: Any = "none",
    late: Any = "drop",
    null_time: Any = "error",
) -> Explanation:
    """Say how a join would use its predicate. Takes the arguments of `join` and checks them in the same way.

    `left` and `right` are schemas, tables or data frames; `window` may be left out.
    """
    schemas = as_schema(left, "left"), as_schema(right, "right")
    plan, lowered, options = planned(
        *schemas, on, aliases, window=1 if window is None else window, time=time, lateness=lateness, how=how,
        match=match, algorithm=algorithm, index=index, workers=workers, order=order, late=late, null_time=null_time,
        device=device,
    )  # fmt: skip
    return _explanation(plan, lowered, options, check_aliases(aliases))


def _explanation(plan: Plan, lowered: Lowered, options: Options, aliases: tuple[str, str]) -> Explanation:
    def text(expr: Expr) -> str:
        return render(expr, aliases)

    def texts(exprs: Sequence[Expr]) -> tuple[str, ...]:
        return tuple(text(expr) for expr in exprs)

    def bounds(interval: Interval) -> str:
        low = "(-infinity" if interval.low is None else "[("[not interval.low_closed] + text(interval.low)
        high = "infinity)" if interval.high is None else text(interval.high) + "])"[not interval.high_closed]
        return f"{low}, {high}"

    def where(band: Band) -> str:
        return f"{text(band.key)} in {' or '.join(bounds(interval) for interval in band.intervals)}"

    return Explanation(
        plan=plan,
        aliases=aliases,
        kind=plan.kind,
        predicate=text(plan.predicate),
        equalities=tuple(f"{text(key.left)} = {text(key.right)}" for key in plan.equalities),
        bands={side: where(band) for side in SIDES if (band := plan.band_of(side)) is not None},
        residual={side: texts(plan.residual(side)) for side in SIDES},
        filters={side: texts(plan.filter_of(side)) for side in SIDES},
        recheck=texts(lowered.recheck),
        row_by_row=texts(slow_terms(lowered)),
        recheck_long_text=texts(lowered.recheck_long_text),
        slots={side: tuple(slot.dtype for slot in lowered.slots[side]) for side in SIDES},
        keys={side: KeyChooser(lowered, side).first_key(aliases) for side in SIDES},
        index=options.index if options.index != "auto" else usual_index(lowered.has_order),
        device=described_device(lowered, options.device),
        match=options.match,
        paths=paths(lowered) if options.index == "auto" else {},
    )


def _line(label: str, text: str) -> str:
    return f"  {label:<{WIDTH}} {text}"


def _listing(label: str, texts: Sequence[str]) -> list[str]:
    """One text per line, the label before the first."""
    return [_line(label if not i else "", text) for i, text in enumerate(texts)]


__all__ = ["Explanation", "explain"]
