"""`streamjoin hardware`: what it prints and writes, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import streamjoin as sj
from streamjoin.cli import hardware, main
from streamjoin.hardware import Design, report
from streamjoin.hardware.report import throughput
from streamjoin.hardware.synthesis import resources
from streamjoin.hardware.verilog import design_of

pytestmark = pytest.mark.hardware

LEFT = pa.table({"ts": [1, 2, 4, 5, 7, 8, 9], "k": [1, 2, 1, 3, 2, 1, 1], "v": list("abcdefg")})
RIGHT = pa.table({"at": [1, 3, 5, 6, 7, 10], "k": [2, 1, 1, 3, 1, 1], "w": [10, 20, 30, 40, 50, 60]})
SMALL = ("--cores", "2", "--segment", "2")
NARROW = ("--left", "k tinyint", "--right", "k tinyint", "--on", "l.k = r.k", "--payload", "4", "--not-null", *SMALL)
SCHEMA = pa.schema([pa.field("k", pa.int8(), nullable=False)])
Printed = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    parquet.write_table(LEFT, tmp_path / "left.parquet")
    csv.write_csv(RIGHT, tmp_path / "right.csv")
    return str(tmp_path / "left.parquet"), str(tmp_path / "right.csv")


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_simulate_is_the_join(files: tuple[str, str], tmp_path: Path, capsys: Printed) -> None:
    expected = sj.join(LEFT, RIGHT, on="l.k = r.k", time=("ts", "at"), window=4)
    for name, read in (
        ("out.parquet", parquet.read_table),
        ("out.csv", csv.read_csv),
        ("out.arrow", feather.read_table),
    ):
        out = tmp_path / name
        argv = ["hardware", "simulate", *files, "--on", "l.k = r.k", "--time", "ts", "at", *SMALL, "--out", str(out)]
        assert main([*argv, "--report"]) == 0
        assert rows(read(out)) == rows(expected)
    printed = capsys.readouterr().out
    assert f"{expected.num_rows} results; 7 and 6 tuples, windows of 4" in printed
    assert "accepted          7 and 6" in printed
    assert "simulator         amaranth" in printed


def test_simulate_prints_rows_without_a_file(files: tuple[str, str], capsys: Printed) -> None:
    argv = ["hardware", "simulate", *files, "--on", "a.k = b.k", "--alias", "a", "b", "--segment", "4", "--lanes", "2"]
    assert main([*argv, "--cores", "2", "--merger", "full-rate", "--scope", "core"]) == 0
    printed = capsys.readouterr().out
    assert "'v': 'a'" in printed
    assert "more; --out FILE writes all" in printed
    assert "simulator" not in printed


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--on", "l.x = r.k"], "unknown column 'x'"),
        (["--on", "l.v = r.k"], "on: "),
        (["--on", "l.k = r.k", "--lanes", "3"], "lanes: 3"),
        (["--on", "l.k = r.k", "--time", "ts", "at", "ts"], "--time: 3 columns"),
        (["--on", "l.k = r.k", "--time", "nope"], "nope"),
        (["--on", "l.k = r.k", "--stall", "2"], "stall"),
        (["--on", "l.k = r.k", "--out", "result.txt"], "--out: 'result.txt' has no known ending"),
    ],
)
def test_what_cannot_be_simulated(argv: list[str], message: str, files: tuple[str, str], capsys: Printed) -> None:
    assert main(["hardware", "simulate", *files, *argv]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_files_that_cannot_be_read(files: tuple[str, str], tmp_path: Path, capsys: Printed) -> None:
    assert main(["hardware", "simulate", files[0], str(tmp_path / "no.parquet"), "--on", "l.k = r.k"]) == 2
    assert "RIGHT: there is no file" in capsys.readouterr().err
    assert main(["hardware", "simulate", str(tmp_path), files[1], "--on", "l.k = r.k"]) == 2
    assert "LEFT: " in capsys.readouterr().err
    argv = ["hardware", "simulate", *files, "--on", "l.k = r.k", *SMALL, "--out", str(tmp_path / "no" / "o.csv")]
    assert main(argv) == 2
    assert "--out: there is no directory" in capsys.readouterr().err


def test_synthesise_counts_cells_and_writes_verilog(tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "join.v"
    assert main(["hardware", "synthesise", *NARROW, "--target", "xc7", "--verilog", str(file)]) == 0
    narrow = design_of(SCHEMA, SCHEMA, "l.k = r.k", 4, None, Design(cores=2, segment=2))
    printed, used = capsys.readouterr().out, resources(narrow)
    assert f"LUT     {used.all_lut}, {used.ram_lut} of them as RAM" in printed
    assert f"FF      {used.ff}" in printed
    assert "module handshake_join(" in file.read_text()
    assert main(["hardware", "synthesise", *NARROW, "--verilog", str(file)]) == 0
    assert "FF" not in capsys.readouterr().out, "only Verilog was asked for"


def test_synthesise_places_and_routes(capsys: Printed) -> None:
    assert main(["hardware", "synthesise", *NARROW, "--target", "ecp5", "--seeds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "seed 1: " in printed
    assert " MHz; slowest path " in printed
    assert "TRELLIS_FF: " in printed


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--left", "k tinyint", "--right", "k wide", "--on", "l.k = r.k"], "--right: cannot read"),
        (["--left", "k double", "--right", "k double", "--on", "l.k = r.k"], "whole numbers"),
        (["--left", "k int", "--right", "k int", "--on", "l.k = r.k", "--payload", "0"], "payload: 0 is not valid"),
        (["--left", "k int", "--right", "k int", "--on", "l.k = r.k", "--ram", "--segment", "2"], "block RAM"),
    ],
)
def test_what_cannot_be_synthesised(argv: list[str], message: str, capsys: Printed) -> None:
    assert main(["hardware", "synthesise", *argv]) == 2
    assert message in capsys.readouterr().err


def test_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    pytest.importorskip("matplotlib")
    for name, size in {"QUICK_CORES": 2, "SEGMENT": 2, "QUICK_BUFFERS": (4, 12), "QUICK_RATES": (0.0, 1.0)}.items():
        monkeypatch.setattr(throughput, name, size)
    file, plots = tmp_path / "figures.json", tmp_path / "plots"
    argv = ["hardware", "report", "--experiments", "throughput", "--quick", "--json", str(file), "--plots", str(plots)]
    assert main(argv) == 0
    figures = json.loads(file.read_text())
    assert figures["settings"] == {"experiments": ["throughput"], "quick": True}
    assert "FPGA paper, Fig. 12" in figures["throughput"]["paper"]
    entries = figures["throughput"]["figures"]
    points = [entry for entry in entries if "match_rate" in entry]
    assert {(entry["variant"], entry["buffer"], entry["match_rate"]) for entry in points} == {
        (variant, buffer, rate) for variant in throughput.VARIANTS for buffer in (4, 12) for rate in (0.0, 1.0)
    }
    nested = {entry["buffer"]: entry["cycles"] for entry in entries if entry["variant"] == throughput.NESTED}
    assert nested == {4: 4 * 4, 12: 4 * 4 + 2 * 4 * 8}
    for entry in points:
        assert entry["output_rate"] == pytest.approx(1e8 * entry["results"] / entry["cycles"])
        assert (entry["results"] > 0) == (entry["match_rate"] > 0)
    names = {path.name for path in plots.iterdir()}
    assert names == {
        f"hardware-throughput-{what}-{buffer}.{kind}"
        for what in ("output", "input") for buffer in (4, 12) for kind in ("png", "svg")
    }  # fmt: skip
    for label in (*throughput.VARIANTS, throughput.NESTED, "match rate, %"):
        assert f"<!-- {label} -->" in (plots / "hardware-throughput-input-12.svg").read_text()
    printed = capsys.readouterr().out
    assert "Output: M results/s at 100 MHz by match rate" in printed
    assert "In the papers" in printed


def test_experiments_are_known_by_their_names(capsys: Printed) -> None:
    assert tuple(report.EXPERIMENTS) == hardware.EXPERIMENTS
    with pytest.raises(SystemExit) as exit_:
        main(["hardware", "report", "--experiments", "everything"])
    assert exit_.value.code == 2


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [(["--help"], 0, "hardware"), (["hardware", "report", "--quick"], 2, "install streamjoin[hardware]")],
)
def test_without_the_extra(argv: list[str], status: int, message: str) -> None:
    program = f"import sys; sys.modules['amaranth'] = None; from streamjoin.cli import main; sys.exit(main({argv!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
