"""The command line: what it prints, and its exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import streamjoin
from streamjoin.cli import main
from streamjoin.cli.files.columns import read_schema
from streamjoin.errors import DataError

PREDICATE = "l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01"
LEFT, RIGHT = "ts timestamp, price double", "ts timestamp, bid double, ask double"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"streamjoin {streamjoin.__version__}\n"


@pytest.mark.parametrize(
    "argv", [[], ["nonsense"], ["explain"], ["bench"], ["demo", "--rows", "0"], ["demo", "--rows", "x"]]
)
def test_wrong_usage_exits_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(argv)
    assert exit_.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_explain_prints_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", PREDICATE, "--left", LEFT, "--right", RIGHT]) == 0
    out = capsys.readouterr().out
    assert "l.price in [r.bid - 0.01, r.ask + 0.01]" in out
    assert "bi-sort, sorted by a key (left stored: l.price; right stored: r.bid - 0.01)" in out


def test_explain_with_aliases(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["explain", "t.price < q.bid", "--left", LEFT, "--right", RIGHT, "--alias", "t", "q"]
    assert main(argv) == 0
    assert "t.price in (-infinity, q.bid)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["l.prise < r.bid", "--left", LEFT, "--right", RIGHT], "unknown column 'prise'"),
        (["SELECT 1", "--left", LEFT, "--right", RIGHT], "on: "),
        ([PREDICATE, "--left", "price", "--right", RIGHT], "--left: cannot read 'price'"),
        ([PREDICATE, "--left", "price doubel", "--right", RIGHT], "--left: cannot read 'price doubel'"),
        ([PREDICATE, "--left", LEFT, "--right", "there/is/none.parquet"], "--right: there is no file"),
        ([PREDICATE, "--left", LEFT, "--right", RIGHT, "--alias", "x", "x"], "aliases: "),
    ],
)
def test_errors_are_messages(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("streamjoin: ")
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_schemas_of_columns() -> None:
    schema = read_schema("a int, `b c` decimal(10, 2), d string,e timestamp_ntz", "--left")
    expected = [("a", pa.int32()), ("b c", pa.decimal128(10, 2)), ("d", pa.string()), ("e", pa.timestamp("us"))]
    assert schema == pa.schema(expected)


def test_schemas_of_files(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    csv.write_csv(table, tmp_path / "t.csv")
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    for name in ("t.parquet", "t.feather", "t.csv", "t.arrow"):
        assert read_schema(str(tmp_path / name), "--left") == table.schema
    (tmp_path / "bad.parquet").write_text("no parquet")
    with pytest.raises(DataError, match=r"bad\.parquet: it cannot be read as parquet"):
        read_schema(str(tmp_path / "bad.parquet"), "--left")


def test_demo_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--embedded", "--rows", "3K", "--seed", "7"]) == 0
    out = capsys.readouterr().out
    assert "6,000 of 6,000" in out
    assert "done\n  6,000 rows in" in out
    assert "\x1b" not in out


def test_demo_finds_what_join_finds(capsys: pytest.CaptureFixture[str]) -> None:
    from streamjoin.cli.embedded_demo import ON, WINDOW
    from streamjoin.testing import trades_and_quotes

    main(["demo", "--embedded", "--rows", "5K", "--seed", "3"])
    pairs = streamjoin.join(*trades_and_quotes(5_000, 3), on=ON, window=WINDOW, time="ts").num_rows
    assert f"  {pairs:,} pairs" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_is_quiet() -> None:
    command = [sys.executable, "-m", "streamjoin.cli", "demo", "--embedded", "--rows", "3M"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()  # it has begun
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()


def test_bench_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scan.json"
    assert main(["bench", "scan", "--window", "2K", "--probes", "20", "--rounds", "1", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert {entry["contestant"] for entry in figures["scan"]} >= {"SQL", "Python, abs()", "NumPy"}
    assert main(["bench", "scan", "--window", "2K", "--rounds", "1", "--json", str(tmp_path / "no" / "x.json")]) == 2
    assert "--json" in capsys.readouterr().err
