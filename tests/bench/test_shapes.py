"""`bench shapes`: contestants of a cell find the same results, wrong counts are errors, and figures are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamjoin.bench.shapes.cells import all_cells, chosen_cells
from streamjoin.bench.shapes.contestants import DEFAULT, INDEXES
from streamjoin.bench.shapes.experiments import measure
from streamjoin.bench.shapes.measure import Bench, Failed, Lap, Stopped, Track
from streamjoin.bench.shapes.real import ticks_of_day
from streamjoin.bench.shapes.results import CellResults, Entry, ShapesResults, ShapesSettings
from streamjoin.bench.shapes.work import Sizes
from streamjoin.cli import main
from streamjoin.errors import ArgumentError
from streamjoin.reporting.measure import Rates

from ..long import LONG

pytestmark = pytest.mark.bench

SIZES = Sizes(seed=3, rows=4 * 4_096, scale=0.002, data=Path("nowhere"))


def counts(name: str, some: tuple[str, ...] | None = None) -> dict[str, dict[int, int]]:
    """The results of each contestant, by round."""
    bench = Bench(all_cells()[name], SIZES, laps=1, seconds=0.01)
    found = {}
    for contestant in bench.names:
        if some is not None and contestant in INDEXES and contestant not in some:
            continue
        try:
            found[contestant] = bench.lap(contestant).counts
        except ArgumentError:  # an index that does not suit the predicate, or a peer that is not installed
            assert contestant != DEFAULT
    bench.close()
    return found


def agree(found: dict[str, dict[int, int]]) -> None:
    first = found[DEFAULT]
    assert sum(first.values()) > 0
    assert len(found) > 2
    for contestant, theirs in found.items():
        shared = theirs.keys() & first.keys()
        assert shared, contestant
        assert {n: theirs[n] for n in shared} == {n: first[n] for n in shared}, contestant


GRID = ["equality-50-4K", "time-band-50-4K"]
BESIDE = ["text", "decimals", "anti"]
REAL = ["ticks", "ticks-as-of"]
if LONG:  # each of these takes a few seconds, mostly to compile
    GRID += ["composite-1K-4K", "square-1K-64", "ratio-1K-64"]
    BESIDE += ["heavy-hitter", "disorder", "drift", "bursts", "many-results", "left"]
    REAL += ["ticks-self", "ticks-ratio", "ticks-anti"]


@pytest.mark.parametrize("name", GRID)
def test_all_contestants_find_the_same_in_the_grid(name: str) -> None:
    agree(counts(name, ("scan", "bi-sort")))


@pytest.mark.parametrize("name", BESIDE)
def test_all_contestants_find_the_same_beside_the_grid(name: str) -> None:
    agree(counts(name, ("bi-sort",)))


@pytest.mark.parametrize("name", REAL)
def test_all_contestants_find_the_same_in_real_work(name: str) -> None:
    agree(counts(name, ("scan",)))


def test_the_day_of_ticks_has_its_shape() -> None:
    trades, quotes = ticks_of_day(0.01, 0)
    assert (len(trades), len(quotes)) == (2_000, 18_000)
    for table, time in ((trades, "ts"), (quotes, "qts")):
        assert table[time].to_pylist() == sorted(table[time].to_pylist())
    assert min(trades["price"].to_pylist()) > 0
    work = all_cells()["ticks"].make(SIZES)
    assert work.window == ("500 ms", "2 seconds")


def test_the_grid_has_57_cells_of_tuple_windows() -> None:
    grid = [cell for cell in all_cells().values() if cell.shape in ("equality", "composite", "band", "square", "ratio")]
    assert len(grid) == 57
    assert {cell.name for cell in chosen_cells(["band"], quick=False)} == {
        f"band-{window}-{batch}" for window in ("50", "1K", "20K", "400K") for batch in ("64", "4K", "64K")
    }
    assert len(chosen_cells([], quick=True)) < len(chosen_cells([], quick=False)) == len(all_cells())
    assert [cell.name for cell in chosen_cells(["band-50-64", "ticks-s*"], quick=True)] == ["band-50-64", "ticks-self"]
    with pytest.raises(ArgumentError, match="'bands' is none of equality"):
        chosen_cells(["bands"], quick=False)


def entry(name: str, rate: float, counted: list[int]) -> Entry:
    rates = Rates()
    rates.add(int(rate * 1e6), 1.0, 1.0, 1.0)
    return Entry(name, rates, dict(enumerate(counted)))


def test_regret_and_ratio() -> None:
    cell = CellResults("c", "c", "", 0, None)
    cell.entries = [entry(DEFAULT, 2, [5, 6]), entry("scan", 3, [5]), entry("hash", 1, [5, 6]), entry("NumPy", 4, [5])]
    cell.check()
    assert not cell.wrong
    assert (cell.regret, cell.to_peer) == (1.5, 0.5)
    summary = ShapesResults([cell]).summary()
    assert summary["worst_regret"] == (1.5, "c")
    assert (summary["median_regret"], summary["median_to_peer"]) == (1.5, 0.5)


def test_a_wrong_count_is_no_figure() -> None:
    cell = CellResults("c", "c", "", 0, None)
    cell.entries = [entry(DEFAULT, 2, [5, 6]), entry("scan", 3, [5, 7])]
    cell.check()
    assert cell.wrong == ["c, round 1: scan finds 7 results, default 6"]
    assert cell.regret is None


class Stuck(Track):
    """A track on which every index takes too long, and hash does not suit."""

    def lap(self, contestant: str, limit: float) -> Lap:
        if contestant == "hash":
            raise ArgumentError("no equality")
        if contestant in INDEXES:
            raise Stopped(f"over {limit:.0f} s")
        return Bench(all_cells()["decimals"], SIZES, 1, 0.01).lap("DuckDB")


def test_slow_contestants_are_stopped() -> None:
    pytest.importorskip("duckdb")
    cell = all_cells()["decimals"]
    settings = ShapesSettings([cell.name], 1, 0.01, 60.0, 100, 0.002, 0, quick=True)
    found = measure(Stuck(SIZES, 1, 0.01), cell, [DEFAULT, "scan", "hash"], settings, lambda _: None)
    default, scan = found.entries  # the index that does not suit is not among them
    assert (default.contestant, default.stopped) == (DEFAULT, None)
    assert scan.contestant == "scan"
    assert str(scan.stopped).startswith("over")
    assert found.regret is None


def test_an_error_of_a_contestant_is_an_error_of_the_run() -> None:
    class Broken(Track):
        def lap(self, contestant: str, limit: float) -> Lap:
            raise Failed("ValueError: no")

    cell = all_cells()["decimals"]
    settings = ShapesSettings([cell.name], 2, 0.01, 60.0, 100, 0.002, 0, quick=True)
    found = measure(Broken(SIZES, 2, 0.01), cell, [DEFAULT], settings, lambda _: None)
    found.check()
    assert found.wrong == ["decimals: default fails, ValueError: no"]


def test_a_process_that_takes_too_long_is_stopped_and_started_anew() -> None:
    with Track(SIZES, 1, 0.01) as track:
        names = track.open("decimals")
        assert names[0] == DEFAULT
        with pytest.raises(Stopped, match="over 0 s"):
            track.lap(DEFAULT, 0.0)
        assert track.lap("scan", 120.0).counts
        with pytest.raises(Failed, match="KeyError"):
            track.lap("nobody", 120.0)


def test_the_command(tmp_path: Path, drawn: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "figures.json"
    arguments = ["--cells", "ratio-50-64", "ratio-50-4K", "decimals", "stocks", "--rounds", "2", "--seconds", "0.02"]
    more = ["--rows", "40K", "--scale", "0.002", "--data", str(tmp_path), "--json", str(file), "--plots", str(tmp_path)]
    assert main(["bench", "shapes", *arguments, *more]) == 0
    figures = json.loads(file.read_text())
    assert [cell["cell"] for cell in figures["cells"]] == ["ratio-50-64", "ratio-50-4K", "decimals"]
    for cell in figures["cells"]:
        names = [one["contestant"] for one in cell["contestants"]]
        assert names[:2] == [DEFAULT, "scan"]
        assert "hash" not in names
        assert cell["regret"] > 0
    assert [text.split(":")[0] for text in figures["left_out"]] == ["stocks"]
    assert {path.stem for path in drawn} == {"shapes-regret", "shapes-to_peer", "shapes-further"}
    printed = capsys.readouterr().out
    assert "Worst regret" in printed
    assert "Median ratio to a peer" in printed
