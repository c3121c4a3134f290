"""Which way of finding pairs a new subwindow gets when the user leaves it open.

Three paths are compared by what they are likely to cost (`store.costs`): to scan the tuples that a probing tuple can
reach, to search an ordered index for those that its key asks for, or to look up an equal key in a hash table. A scan
pays for the *reach*, the stored tuples inside the probing tuple's window, or, if that is less, for a grid of what the
batch reaches (`store.grid`). A search pays for the candidates of its key
among all stored tuples, of which a batch that spans many windows stores far more than any of its tuples can reach; a
hash table pays for those from the beginning of the window on.
A hash table costs least to begin with, so it serves small batches; a large one lies far away in memory.

PanJoin (section V-A4) advises BI-Sort where batches or results are many, else RaP-Table, or WiB+-Tree where keys drift:
its BI-Sort merges every batch into one large array, which small batches cannot pay for. Ours merges seldom and keeps
the youngest tuples in a tail, so it is the fastest of the three at every batch size (docs/indexes.md has the figures).
Keys that drift only move its key space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..compile.background import is_rehearsing
from ..predicate.lower import Lowered
from ..side import SIDES
from . import bi_sort, hash, scan
from .batch import LARGEST_PART, Batch
from .costs import Costs, comparison_cost, costs
from .device import Device
from .grid import GridKeys, grid_keys
from .index import IndexKind
from .key_choice import KeyChooser
from .registry import INDEXES
from .stored_side import FEW_STORED

PATIENCE = 1.2
"""By what factor another path must be cheaper than the one in use."""
ALWAYS_COMPARED = 1024
"""Comparisons of a probing tuple that say nothing: it may scan a tail, and looks at partitions as a whole."""
GROWTH = 4
"""By what factor a window may grow before what is known of its reach is out of date. An index that can be searched can
also be scanned, so it is opened where nothing is known."""
SCAN, SEARCH, HASH = scan.KIND, bi_sort.KIND, hash.KIND
"""What "auto" chooses from; a hash table only where the predicate has an equality."""
GRID, DEVICE = "grid", "gpu"
"""What the estimates of a scan with grids, and of one on a device, are called."""


def usual_index(has_order: bool) -> str:
    """What "auto" chooses for all but short windows."""
    return SEARCH.name if has_order else SCAN.name


def paths(lowered: Lowered) -> dict[str, str]:
    """What "auto" chooses from, and what each path is likely to cost, as texts for people."""
    known, comparison = costs(), comparison_cost(lowered)
    found = {SCAN.name: f"about {comparison:.2g} ns for each tuple that a probing tuple can reach"}
    if any(grid_keys(lowered, side) for side in SIDES):
        found[SCAN.name] += (
            f"; in large batches about {known.grid_probe:.0f} ns, and {known.grid_stored:.0f} ns for each tuple that "
            "the batch can reach: these are grouped by key"
        )
    if lowered.has_order:
        once = known.insert + known.range_
        reach = max(once + known.candidate - known.scanned_probe, 0) / comparison
        found[SEARCH.name] = (
            f"about {once:.0f} ns, and {known.candidate:.0f} ns for each candidate by key; "
            f"cheaper from a reach of about {float(f'{reach:.1g}'):,.0f} tuples on"
        )
    if lowered.hash_slots:
        found[HASH.name] = (
            f"about {known.hashed:.0f} to {known.hashed + known.far:.0f} ns, the more the larger the window, and "
            f"{known.chained:.0f} ns for each tuple of the window with the same key"
        )
    return found


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """An index and the reason for it."""

    kind: IndexKind
    why: str


@dataclass(frozen=True, slots=True)
class Reached:
    """How far probing tuples reach into a window."""

    reach: float
    """Stored tuples in the window of a probing one."""
    from_low: float
    """Stored tuples from where the window of a probing one begins: the chains of a hash table end there."""
    together: int
    """Stored tuples that lie between the first and the last that any probing tuple reaches."""
    stored: int

    @property
    def on_chains(self) -> float:
        """Which share of the stored tuples the chains of a hash table lead to before they end."""
        return min(self.from_low / self.stored, 1.0) if self.stored else 1.0


def _followed(usual: float, size: int) -> float:
    """The usual size, as the last few say."""
    return usual + (size - usual) / 8 if usual else float(size)


class IndexChooser:
    """Watches one side's batches, keys and reach, and chooses at each border between subwindows.

    `index` is the name of the index that the user asked for, or "auto". A scan may use grids by the `grid_keys`, or be
    done by the `device`.
    """

    def __init__(
        self, index: str, keys: KeyChooser, grid_keys: GridKeys | None = None, device: Device | None = None
    ) -> None:  # fmt: skip
        self._asked = None if index == "auto" else INDEXES[index]
        self._keys, self._grid_keys, self._device = keys, grid_keys, device
        self._comparison = comparison_cost(keys.lowered)
        self._batch = self._inserted = 0.0
        """Tuples that usually probe at once, and that are stored at once."""
        self._reached: Reached | None = None
        self._batch_then = 0.0
        self._chosen: IndexKind = SEARCH
        self._equal_candidates = 0.0
        self.switches = 0
        self.grids_are_vain = False
        """Whether the last grids had too many candidates, whatever the sample says."""
        self.estimates: dict[str, float] = {}
        """What a probing tuple would cost on each path, in nanoseconds."""

    @property
    def only(self) -> IndexKind | None:
        """The kind that all subwindows will have, where that is certain."""
        if self._asked is not None and (self._asked.needs != "order" or self._keys.usable):
            return self._asked
        return None if self._keys.usable else SCAN

    def expect(self, batch: Batch) -> None:
        """A batch is about to probe; the usual size follows the last few."""
        self._batch = _followed(self._batch, len(batch))

    def note_stored(self, batch: Batch) -> None:
        """A batch was stored, or what has to be stored of it."""
        self._inserted = _followed(self._inserted, len(batch))

    def note_reach(self, reached: Reached) -> None:
        self._reached, self._batch_then = reached, self._batch

    def is_out_of_date(self, stored: int, factor: float) -> bool:
        """Whether stored tuples have become more, or batches larger or smaller, by a factor since the reach was noted.
        Whenever a subwindow expires, far fewer tuples may be stored for a while; that says nothing."""
        now, then = self._batch, self._batch_then
        known = 0 if self._reached is None else self._reached.stored
        return stored > factor * known or now > factor * then or factor * now < then

    @property
    def expected_comparisons(self) -> float:
        """How many comparisons a search was expected to need for a probing tuple, at most."""
        return ALWAYS_COMPARED + (self._keys.candidates or 0.0) + self._equal_candidates

    @property
    def searches(self) -> bool:
        """Whether a search is worth its index, as far as is known."""
        return self._chosen is not SCAN

    @property
    def hashes(self) -> bool:
        """Whether a hash table is the better path, as far as is known."""
        return self._chosen is HASH

    def choose(self, window: int, lasting: bool = False) -> IndexChoice:
        """The index for the next subwindow of a window that has `window` tuples.

        `lasting`: other processes will use it, so it should take little room.
        """
        if self.only is not None:
            return IndexChoice(self.only, self._why_only())
        if self._reached is None or not self._keys.is_informed:
            return IndexChoice(SEARCH, "the predicate has a key; nothing has probed it yet")
        if window > GROWTH * self._reached.stored:
            return IndexChoice(SEARCH, "the window has grown; nothing has probed it since")
        return IndexChoice(SEARCH if lasting and self._chosen is HASH else self._chosen, self._why_chosen())

    def _why_chosen(self) -> str:
        assert self._reached is not None
        batch, reach, stored = max(round(self._batch), 1), self._reached.reach, self._reached.stored
        candidates = self._keys.candidates
        by_key = "" if candidates is None else f", {candidates:.3g} candidates by key"
        costs = ", ".join(f"{name} about {cost:.3g} ns" for name, cost in self.estimates.items())
        return f"batches of about {batch} reach {reach:.3g} of {stored} tuples{by_key}; per tuple: {costs}"

    def compare_paths(self, window: int) -> None:
        """Estimate all paths anew, and change to another one if it is cheaper by far. Tuples that came from another
        process were not seen here, so nothing may be known of their keys."""
        reached = self._reached
        if reached is None or not self._keys.is_informed:
            return
        known, batch = costs().of_window(window), max(self._batch, 1.0)
        to_scan, grid = self._to_scan(reached, known, batch), dict[str, float]()
        stored = min(self._inserted / batch, 1.0)  # of a batch that spans many windows, little is stored
        found = {SCAN: to_scan, SEARCH: stored * known.insert + known.range_ + known.search_step / batch}
        if self._keys.lowered.hash_slots:
            found[HASH] = (1 + stored) / 2 * known.hashed + known.far + known.hash_step / batch
        if PATIENCE * found[SCAN] > min(cost for kind, cost in found.items() if kind is not SCAN):
            # Only where a scan does not win against a search without any candidates, it is worth to look at keys.
            self._keys.choose(window)
            found[SEARCH] += self._keys.cost - known.range_
            if HASH in found:
                self._equal_candidates = reached.on_chains * self._keys.equal_candidates(window)
                found[HASH] += known.chained * self._equal_candidates
            if self._grid_keys is not None and not self.grids_are_vain:
                grid[GRID] = self._with_grid(reached, batch, min(found.values()))
                found[SCAN] = min(to_scan, grid[GRID])
        if self._device is not None and not is_rehearsing():
            by_device = self._device.estimate(batch, batch * reached.reach) / batch
            if PATIENCE * by_device < min(found.values()) and self._device.is_ready():
                grid[DEVICE] = found[SCAN] = by_device
        self.estimates = {SCAN.name: to_scan, **grid, **{kind.name: found[kind] for kind in found if kind is not SCAN}}
        best = min(found, key=found.__getitem__)
        if is_rehearsing():  # all paths in turn, so that all of them are compiled
            self._chosen = list(found)[self.switches % len(found)]
            self.switches += 1
        elif best is not self._chosen and found[self._chosen] > PATIENCE * found[best]:
            self._chosen = best
            self.switches += 1

    def _to_scan(self, reached: Reached, known: Costs, batch: float) -> float:
        """Few stored tuples that many probing ones reach together are compared the other way round: their windows are
        taken to ascend."""
        is_turned = FEW_STORED * reached.together < min(batch, LARGEST_PART)
        begin = known.turned_probe if is_turned else known.scanned_probe
        return begin + reached.reach * self._comparison + known.scan_step / batch

    def _with_grid(self, reached: Reached, batch: float, most: float) -> float:
        """The same where the tuples that a batch reaches are put into a grid. Candidates are not looked for where the
        grid alone costs more than `most`: to estimate them takes as many cells as the grid would have."""
        assert self._grid_keys is not None
        known, runs = costs(), self._grid_keys.runs
        to_group = known.to_group(reached.together, runs) / min(batch, LARGEST_PART)
        once = (known.scan_step + known.grid_step) / batch + to_group + runs * known.grid_probe
        if once > PATIENCE * most and not is_rehearsing():
            return once
        candidates = self._keys.grid_candidates(self._grid_keys, reached.together)
        return once + candidates * (known.to_test(reached.together) + self._comparison)

    def _why_only(self) -> str:
        if self._asked is None:
            return "the predicate has no key to sort by"
        return "asked for" if self.only is self._asked else "this side has no key to sort by"

    def path(self, opened: IndexKind) -> IndexKind:
        """The path in use, where this kind of subwindow was opened last. One that can be searched may be scanned."""
        return SCAN if self.only is None and not self.searches else opened

    def why(self, choice: IndexChoice) -> str:
        """The reason for the path in use."""
        return self._why_chosen() if self.only is None and self.estimates else choice.why

    def figures(self) -> dict[str, Any]:
        """What the choice rests on, for metrics."""
        return {"reach": None if self._reached is None else self._reached.reach, "estimates": dict(self.estimates)}
