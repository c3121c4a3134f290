"""`streamjoin join`: what it reads, what it writes, and what it says. Its results are those of `streamjoin.join`."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

import streamjoin as sj
from streamjoin import oracle
from streamjoin.arrow.times import TimeColumns
from streamjoin.cli import main
from streamjoin.cli.files import text
from streamjoin.cli.files.in_order import TimeOrder
from streamjoin.cli.files.reading import Input, read_table
from streamjoin.cli.join import read_windows

from .. import constants, interpreted
from ..predicates import BAND, KEY

FORMATS = ("parquet", "csv", "arrow", "arrows", "ndjson", "csv.gz", "ndjson.bz2")
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    interpreted.install(monkeypatch)


def table(count: int, seed: int, shuffled: bool = False) -> pa.Table:
    rng = np.random.default_rng(seed)
    rows = pa.table({"ts": np.sort(rng.integers(0, count, count)), "k": rng.integers(0, 9, count), "n": range(count)})
    return rows.take(rng.permutation(count)) if shuffled else rows


def write(rows: pa.Table, file: str) -> str:
    """A file in the format that its name says, written by others than the product."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    kind = file.split(".", 1)[1]
    content = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(rows, content)
    elif kind.startswith("csv"):
        csv.write_csv(rows, content)
    elif kind.startswith("arrow"):
        with (pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream)(content, rows.schema) as writer:
            writer.write_table(rows)
    else:
        content.write("".join(f"{json.dumps(row, default=str)}\n" for row in rows.to_pylist()).encode())
    pack = gzip.compress if kind.endswith("gz") else bz2.compress if kind.endswith("bz2") else bytes
    Path(file).write_bytes(pack(content.getvalue()))
    return file


def run(*argv: str, on: str = BAND, window: tuple[str, ...] = ("5 ticks", "3 ticks"), time: str | None = "ts") -> int:
    return main(["join", *argv, "--on", on, "--window", *window, *(["--time", time] if time else [])])


def rows_of(data: pa.Table) -> list[Row]:
    return sorted(data.to_pylist(), key=lambda row: json.dumps(row, default=str))


def wanted(left: pa.Table, right: pa.Table, how: Any = "inner", windows: Any = None) -> list[Row]:
    """The rows that the oracle finds for `BAND`."""
    sides = left.to_pylist(), right.to_pylist()
    windows = windows or (sj.TimeWindow(5), sj.TimeWindow(3))
    found = oracle.join_rows(*sides, lambda l, r: abs(l["k"] - r["k"]) <= 1, windows, time=("ts", "ts"), how=how)
    gives_right = how not in ("semi", "anti")

    def row(l: int | None, r: int | None) -> Row:
        one = {name: None if l is None else sides[0][l][name] for name in left.column_names}
        other = {f"{name}_right": None if r is None else sides[1][r][name] for name in right.column_names}
        return one | (other if gives_right else {})

    return sorted((row(*pair) for pair in found), key=lambda r: json.dumps(r, default=str))


class Pipe(io.RawIOBase):
    """Standard input that gives few bytes at a time, once."""

    def __init__(self, content: bytes, most: int = 100) -> None:
        self._content, self._most = io.BytesIO(content), most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._content.read(min(self._most, len(buffer)))
        buffer[: len(piece)] = piece
        return len(piece)


def pipe_in(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": Pipe(Path(file).read_bytes())})())


LEFT, RIGHT = table(60, 1, shuffled=True), table(50, 2, shuffled=True)


@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_every_format_in_and_out(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read as left and as right, by name and from a pipe, and written."""
    one, other, out = (FORMATS[(number + step) % len(FORMATS)] for step in (0, 1, 3))
    left, right = write(LEFT, f"left.{one}"), write(RIGHT, f"right.{other}")
    assert run(left, right, "-o", f"out.{out}") == 0
    assert rows_of(read_table(f"out.{out}", "out")) == wanted(LEFT, RIGHT)
    pipe_in(monkeypatch, right)
    assert run(left, "-", "-o", f"piped.{out}", "--how", "left") == 0
    assert rows_of(read_table(f"piped.{out}", "out")) == wanted(LEFT, RIGHT, "left")


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_results_are_those_of_join(how: Any) -> None:
    left, right = write(LEFT, "left.csv"), write(RIGHT, "right.parquet")
    assert run(left, right, "--how", how, "--order", "sorted", "-o", "out.parquet") == 0
    windows = sj.TimeWindow(5), sj.TimeWindow(3)
    assert parquet.read_table("out.parquet") == sj.join(
        LEFT, RIGHT, on=BAND, window=windows, time="ts", how=how, order="sorted"
    )


@pytest.mark.parametrize("match", ["latest", "nearest"])
def test_the_closest_partner(match: Any) -> None:
    left, right = write(LEFT, "left.csv"), write(RIGHT, "right.parquet")
    assert run(left, right, "--match", match, "--how", "left", "-o", "out.arrow") == 0
    windows = sj.TimeWindow(5), sj.TimeWindow(3)
    joined = sj.join(LEFT, RIGHT, on=BAND, window=windows, time="ts", how="left", match=match)
    assert rows_of(read_table("out.arrow", "out")) == rows_of(joined)


def test_numbers_are_rows_and_ticks_are_time(capsys: pytest.CaptureFixture[str]) -> None:
    left, right = write(LEFT, "left.csv"), write(RIGHT, "right.parquet")
    assert run(left, right, "-o", "out.parquet", window=("30", "7")) == 0
    counted = wanted(LEFT, RIGHT, windows=(sj.CountWindow(30), sj.CountWindow(7)))
    assert rows_of(parquet.read_table("out.parquet")) == counted
    assert 'counts rows; for 30 and 7 of the time column\'s own unit write --window "30 ticks" "7 ticks"' in (
        capsys.readouterr().err
    )
    assert run(left, right, "-o", "out.parquet", window=("30 rows", "7 rows")) == 0
    assert rows_of(parquet.read_table("out.parquet")) == counted
    assert capsys.readouterr().err == ""
    assert run(left, right, "-o", "out.parquet", time=None, window=("3",)) == 0
    assert rows_of(parquet.read_table("out.parquet")) == rows_of(sj.join(LEFT, RIGHT, on=BAND, window=3))
    assert "without --time" in capsys.readouterr().err


def test_windows_without_quotes() -> None:
    assert read_windows(["2", "seconds"]) == ["2 seconds"]
    assert read_windows(["2", "seconds", "1_000"]) == ["2 seconds", 1000]
    assert read_windows(["30", "7"]) == [30, 7]
    assert read_windows(["30", "ticks", "500ms"]) == ["30 ticks", "500ms"]
    with pytest.raises(sj.ArgumentError, match="3 windows given"):
        read_windows(["1", "2", "3"])


def test_times_of_both_sides_and_aliases() -> None:
    right = RIGHT.rename_columns(["at", "k", "n"])
    files = write(LEFT, "left.csv"), write(right, "right.csv")
    argv = ["join", *files, "--on", "abs(a.k - b.k) <= 1", "--aliases", "a", "b", "--window", "5 ticks", "3 ticks"]
    assert main([*argv, "--time", "ts", "at", "-o", "out.parquet", "--suffix", "_2"]) == 0
    out = parquet.read_table("out.parquet")
    assert out.column_names == ["ts", "k", "n", "at", "k_2", "n_2"]
    assert rows_of(out.rename_columns(["ts", "k", "n", "ts_right", "k_right", "n_right"])) == wanted(LEFT, RIGHT)


# -- many files ----------------------------------------------------------------------------------------------------


def test_globs_and_directories_are_one_input() -> None:
    parts = [LEFT.slice(start, 10) for start in range(0, 60, 10)]
    for number, part in enumerate(parts):
        columns = ["n", "ts", "k"] if number % 2 else ["ts", "k", "n"]
        write(part.select(columns), f"csv/part-{number + 7}.csv")
        write(part, f"parquet/deep/part-{number + 7}.parquet")
    Path("csv/part-99.csv").touch()  # Spark leaves such files
    Path("parquet/_SUCCESS").touch()
    Path("parquet/.hidden.parquet").write_text("no parquet")
    right = write(RIGHT, "right.csv")
    for left in ("csv/*.csv", "csv", "parquet", "par*/**/*.parquet"):
        assert read_table(left, "left") == LEFT, left  # part-10 comes after part-9
        assert run(left, right, "-o", "out.csv") == 0
        assert rows_of(csv.read_csv("out.csv")) == wanted(LEFT, RIGHT)


def test_folders_name_columns() -> None:
    for day in ("2024-01-02", "2024-01-01"):
        write(LEFT.slice(0, 2), f"t/day={day}/hour=7/part-0.parquet")
    rows = read_table("t", "left")
    assert rows.schema == LEFT.schema.append(pa.field("day", pa.date32())).append(pa.field("hour", pa.int64()))
    assert [str(day) for day in rows["day"].to_pylist()] == ["2024-01-01"] * 2 + ["2024-01-02"] * 2


def test_types_of_many_files_meet() -> None:
    for name, value in (("a", "1"), ("b", "2.5"), ("c", "")):
        Path(f"{name}.csv").write_text(f"k,t,d\n{value},{value},2024-01-0{len(name)}{' 10:00:00' * (name == 'b')}\n")
    Path("d.csv").write_text("k,t,d\n3,x,2024-01-01\n")
    rows = read_table("?.csv", "left")
    assert [str(type_) for type_ in rows.schema.types] == ["double", "string", "timestamp[us]"]
    assert rows["t"].to_pylist() == ["1", "2.5", None, "x"]
    write(pa.table({"k": [1]}), "p/a.parquet")
    write(pa.table({"k": ["x"]}), "p/b.parquet")
    with pytest.raises(sj.DataError, match=r"b\.parquet: its column 'k' is string, but int64 in .*a\.parquet"):
        read_table("p", "left")
    assert read_table("p/a.parquet", "left")["k"].to_pylist() == [1]
    assert Input("left", "p", text.Reading(types={"k": pa.string()})).schema.field("k").type == pa.string()


def test_keys_of_ndjson_may_be_missing() -> None:
    Path("a.ndjson").write_text('{"k": 1}\n{"k": 2, "s": {"x": [1]}}\n')
    Path("b.ndjson").write_text('{"m": "2024-01-01T10:00:00.5Z", "k": 3.5}')
    rows = read_table("*.ndjson", "left")
    assert rows["k"].to_pylist() == [1, 2, 3.5]
    assert rows["s"].to_pylist() == [None, {"x": [1]}, None]
    assert str(rows.schema.field("m").type) == "timestamp[us, tz=UTC]"


# -- text ----------------------------------------------------------------------------------------------------------


def guessed(content: bytes, name: str = "x.csv", **options: Any) -> pa.Table:
    Path(name).write_bytes(content)
    data = Input("left", name, text.Reading(**options))
    return pa.concat_tables(data.tables())


@pytest.mark.parametrize(
    ("field", "type_", "value"),
    [
        ("12", "int64", 12), ("-1.5", "double", -1.5), ("1e3", "double", 1000.0), ("true", "bool", True),
        ("TRUE", "bool", True), ("x", "string", "x"), ('""', "string", ""), ("NA", "string", "NA"),
        ("2024-02-29", "date32[day]", "2024-02-29"), ("2024-02-29 10:00", "timestamp[us]", "2024-02-29 10:00:00"),
        ("2024-02-29T10:00:00.25", "timestamp[us]", "2024-02-29 10:00:00.250000"),
        ("2024-02-29 10:00:00.000000001", "timestamp[ns]", "2024-02-29 10:00:00.000000001"),
        ("2024-02-29T10:00:00+02:00", "timestamp[us, tz=UTC]", "2024-02-29 08:00:00+00:00"),
        ("9999-12-31T00:00:00.5", "timestamp[us]", "9999-12-31 00:00:00.500000"),
        ('"a\r\nb, ""c"""', "string", 'a\r\nb, "c"'),
    ],
)  # fmt: skip
def test_types_of_csv_are_guessed(field: str, type_: str, value: Any) -> None:
    rows = guessed(f"a,b\n{field},1\n,2\n".encode())
    assert str(rows.schema.field("a").type) == type_
    found = rows["a"].to_pylist()
    assert found[1] is None
    assert found[0] == value if not isinstance(value, str) or type_ == "string" else str(found[0]) == value


def test_csv_of_all_kinds() -> None:
    plain = guessed(b"a,b\n1,x\n2,y\n")
    for content in (
        b"\xef\xbb\xbfa,b\r\n1,x\r\n2,y\r\n",
        b"a;b\n1;x\n2;y",
        b"a\tb\n1\tx\n\n2\ty\n",
        b'"a"|"b"\n1|"x"\n2|y\n',
    ):
        assert guessed(content) == plain
        assert guessed(gzip.compress(content), "y.csv.gz") == plain
    assert guessed(b'"a,b;c";d\n1;2\n').column_names == ["a,b;c", "d"]
    assert guessed(b"a:b\n1:x\n2:y\n", delimiter=":") == plain
    assert guessed(b"a,b\nNA,x\n2,NA\n", nulls=("NA",)).to_pylist() == [{"a": None, "b": "x"}, {"a": 2, "b": None}]
    assert guessed(b"a\n007\n", types={"a": pa.string()})["a"].to_pylist() == ["007"]
    at = guessed(b"a\n31.12.2024 10:30\n", time_format="%d.%m.%Y %H:%M")["a"]
    assert str(at[0]) == "2024-12-31 10:30:00"
    assert guessed(b'{"a": "31.12.2024"}', "z.json", time_format="%d.%m.%Y").schema.field("a").type == pa.timestamp(
        "us"
    )


def test_a_file_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.csv").write_text("ts,k,n\n")
    right = write(RIGHT, "right.csv")
    for files, how in ((("none.csv", right), "right"), ((right, "none.csv"), "left"), (("none.csv",) * 2, "full")):
        assert run(*files, "--how", how, "-o", "out.csv") == 0
        assert csv.read_csv("out.csv").num_rows == (50 if right in files else 0)
    write(LEFT.slice(0, 0), "none.parquet")
    assert run("none.parquet", right) == 0
    assert "0 rows" in capsys.readouterr().out


# -- what does not work --------------------------------------------------------------------------------------------

BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty.csv": (b"", "it is empty"),
    "empty.ndjson": (b" \n", "it is empty"),
    "twice.csv": (b"ts,k,k\n1,2,3\n", "column names must be unique; 'k' appears twice"),
    "ragged.csv": (b'ts,k,n\n1,2,3\n\n4,"x\ny",5\n4,2\n', "line 6: Expected 3 columns, got 2"),
    "wide.csv": (b"\xff\xfet\0s\0", "UTF-16"),
    "latin.csv": (b"ts,k\n1,caf\xe9\n", "no UTF-8 text"),
    "cut.parquet": (b"PAR1 and no more", "cannot be read as parquet"),
    "cut.arrow": (b"ARROW1\0\0abcdefgh", "cannot be read as arrow"),
    "cut.csv.gz": (gzip.compress(b"ts,k,n\n" * 1000)[:-30], "cut.csv.gz"),
    "short.csv.gz": (gzip.compress(b"ts,k,n\n" + b"1,2,3\n" * 1000)[:-12], "short.csv.gz: it cannot be read: "),
    "cut.ndjson": (b'{"ts": 1, "k": 2}\n\n{"ts": 1,\n', "line 3: "),
    "mixed.ndjson": (b'{"k": 2}\n{"k": "x"}\n', "line 2: Column(/k) changed from number to string"),
    "array.json": (b'[{"ts": 1}]', "jq -c '.[]'"),
    "data.txt": (b"ts,k\n1,2\n", "'data.txt' has no known ending; say what it is, as in --format csv"),
    "text.csv": (b"ts,k\n1,2\n2,3\nsoon,4\n", "the column 'ts' is text, because of values such as 'soon' in row 3"),
    "null.csv": (b"ts,k\n1,2\n,3\n", "the time column 'ts' is NULL in row 2"),
    "float.csv": (b"ts,k\n1.5,2\n", "--time: column 'ts' of type double does not tell time"),
    "zone.csv": (b"ts,k\n2024-01-01T00:00:00Z,2\n", "--time: "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    content, message = BAD_FILES[name]
    Path(name).write_bytes(content)
    assert run(name, write(RIGHT, "right.csv"), "-o", "out.csv") == 2
    refused(capsys, message)
    assert sorted(path.name for path in Path().iterdir()) == sorted([name, "right.csv"])


def refused(capsys: pytest.CaptureFixture[str], message: str) -> None:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("streamjoin: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["lef.csv", "right.csv"], "left: there is no file 'lef.csv' (did you mean 'left.csv'?)"),
        (["left.csv", "no*.csv"], "right: no file matches 'no*.csv'"),
        (["left.csv", "none"], "right: there is no file 'none'"),
        (["left.csv", "folder"], "right: the directory 'folder' has no file"),
        (["left.csv", "s3://bucket/key.csv"], "right: 's3://bucket/key.csv' is an address"),
        (["-", "-"], "standard input is the left input already"),
        (["left.csv"], "two inputs are needed"),
        (["left.csv", "right.csv", "-o", "out.doc"], "--out: 'out.doc' has no known ending"),
        (["left.csv", "right.csv", "-o", "folder"], "--out: 'folder' is a directory"),
        (["left.csv", "right.csv", "-o", "none/x.csv"], "--out: there is no directory"),
        (["left.csv", "right.csv", "-o", "left.csv"], "--out: 'left.csv' is also an input (left)"),
        (["left.csv", "./*.csv", "-o", "./left.csv"], "--out: './left.csv' is also an input"),
        (["left.csv", "right.csv", "--output-format", "doc", "-o", "-"], "--output-format: 'doc'"),
        (["left.csv", "right.csv", "--how", "outer"], "--how: 'outer' is not valid (did you mean 'full'?)"),
        (["left.csv", "right.csv", "--match", "asof"], "(did you mean 'latest'?)"),
        (["left.csv", "right.csv", "--window", "2 s"], "--window: got '2 s' (the time column holds integers"),
        (["left.csv", "right.csv", "--window", "2 s"], '"900 ticks"'),
        (["left.csv", "right.csv", "--window", "1", "2", "3"], "--window: 3 windows given"),
        (
            ["left.csv", "right.csv", "--time", "tss"],
            "--time: the left stream has no column 'tss' (did you mean 'ts'?); it has: ts, k, n",
        ),
        (["left.csv", "right.csv", "--time", "a", "b", "c"], "--time: 3 columns"),
        (["left.csv", "right.csv", "--on", "l.kk = r.k"], "--on: unknown column 'kk' (did you mean 'k'?)"),
        (["left.csv", "right.csv", "--types", "x=int"], "--types: no input has a column 'x'; there are: ts, k, n"),
        (["left.csv", "right.csv", "--types", "k=integr"], "--types: 'k=integr' is not valid"),
        (["left.csv", "right.csv", "--delimiter", "ab"], "--delimiter: 'ab'"),
        (["left.csv", "right.csv", "--lateness", "2 s"], "--lateness: "),
        (["left.csv", "right.csv", "--suffix", ""], "--suffix: "),
    ],
)
def test_bad_arguments(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(write(LEFT, "left.csv")).read_bytes()
    write(RIGHT, "right.csv")
    Path("folder").mkdir()
    given = [*argv, *(["--on", KEY] if "--on" not in argv else []), *(["--time", "ts"] if "--time" not in argv else [])]
    assert main(["join", *given, *(["--window", "2"] if "--window" not in argv else [])]) == 2
    refused(capsys, message)
    assert Path("left.csv").read_bytes() == before


def test_values_that_break_a_guess_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, FILE_HEAD=1 << 10, FILE_BLOCK=1 << 10)
    lines = [f"{n},{n}" for n in range(2000)]
    with pytest.raises(
        sj.DataError, match=r"after row [0-9,]+: column 'k': 'x' is no int64; types were guessed .*--types"
    ):
        guessed("\n".join(["ts,k", *lines, "2000,x"]).encode())
    assert guessed("\n".join(["ts,k", *lines, "2000,x"]).encode(), types={"k": pa.string()}).num_rows == 2001
    objects = [f'{{"ts": {n}}}' for n in range(2000)]
    new = "\n".join([*objects, '{"new": "x"}']).encode()
    assert guessed(new, "x.ndjson", types={"new": pa.string()})["new"].to_pylist() == [None] * 2000 + ["x"]
    for last, problem in (('{"ts": "x"}', "number to string.*; types were"), ('{"new": 1}', "the key 'new' is new")):
        with pytest.raises(sj.DataError, match=rf"line 2001: .*{problem}"):
            guessed("\n".join([*objects, last]).encode(), "x.ndjson")


def test_only_times_can_be_sorted_by(capsys: pytest.CaptureFixture[str]) -> None:
    files = write(LEFT, "left.csv"), write(RIGHT, "right.csv")
    assert run(*files, "--sort", window=("3",), time=None) == 2
    refused(capsys, "--sort: rows are sorted by time; name the time column with --time")


def test_tabs_where_the_name_says_so() -> None:
    for name in ("out.tsv", "out.tsv.gz"):
        assert run(write(LEFT, "left.csv"), write(RIGHT, "right.csv"), "-o", name) == 0
        text = (gzip.decompress(Path(name).read_bytes()) if name.endswith("gz") else Path(name).read_bytes()).decode()
        assert all(line.count("\t") == len(LEFT.schema) + len(RIGHT.schema) - 1 for line in text.splitlines())


def test_an_output_keeps_the_permissions_of_the_file_before() -> None:
    files = write(table(9, 1), "left.csv"), write(table(9, 2), "right.csv")
    Path("out.csv").touch(0o600)
    assert run(*files, "-o", "out.csv") == 0
    assert stat.S_IMODE(Path("out.csv").stat().st_mode) == 0o600


def test_a_time_of_day_after_dates_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, FILE_HEAD=1 << 10, FILE_BLOCK=1 << 10)
    days = ['{"ts": "2024-05-31"}'] * 200
    with pytest.raises(sj.DataError, match=r"column 'ts': a value with a time of day is no date32.*; types"):
        guessed("\n".join([*days, '{"ts": "2024-05-31 23:59:59"}']).encode(), "x.ndjson")


# -- larger than memory --------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if memory held few rows."""
    constants.replace(
        monkeypatch, FILE_IN_MEMORY=500, SORTED_RUN=800, SORTED_ROWS=16, FILE_HEAD=1 << 10, FILE_BLOCK=1 << 10
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow", "ndjson"])
def test_inputs_in_order_are_read_as_they_are_joined(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = table(300, 1), table(300, 2)
    left, right = (write(rows, f"{name}.{kind}") for name, rows in zip(("left", "right"), tables, strict=True))
    assert run(left, right, "-o", f"out.{kind}") == 0
    assert rows_of(read_table(f"out.{kind}", "out")) == wanted(*tables)
    pipe_in(monkeypatch, left)
    assert run("-", right, "-o", f"out.{kind}", "--how", "full") == 0
    assert rows_of(read_table(f"out.{kind}", "out")) == wanted(*tables, "full")


@pytest.mark.usefixtures("small")
def test_inputs_out_of_order_are_sorted_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    tables = table(300, 1, shuffled=True), table(300, 2)
    left, right = write(tables[0], "left.csv"), write(tables[1], "right.parquet")
    assert run(left, right, "-o", "out.csv") == 2
    refused(capsys, "left: left.csv is not in time order: 'ts' goes back to ")
    assert not Path("out.csv").exists()
    assert run(left, right, "--lateness", "300", "-o", "out.csv") == 0
    assert rows_of(csv.read_csv("out.csv")) == wanted(*tables)
    assert run(left, right, "--sort", "--order", "sorted", "-o", "sorted.parquet") == 0
    in_order = tables[0].take(np.argsort(tables[0]["ts"].to_numpy(), kind="stable")), tables[1]
    windows = sj.TimeWindow(5), sj.TimeWindow(3)
    joined = sj.join(*in_order, on=BAND, window=windows, time="ts", order="sorted")
    assert parquet.read_table("sorted.parquet") == joined
    assert run(left, right, "--sort", "--match", "latest", "--how", "left", "-o", "latest.parquet") == 0
    latest = sj.join(*tables, on=BAND, window=windows, time="ts", how="left", match="latest")
    assert rows_of(parquet.read_table("latest.parquet")) == rows_of(latest)


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=8), st.integers(1, 300), st.integers(1, 5))
def test_sorting_on_disk_is_stable(times: list[list[int]], run_bytes: int, rows: int) -> None:
    count = 0
    tables = []
    for piece in times:
        numbers = pa.array(range(count, count + len(piece)), pa.int64())
        tables.append(pa.table({"t": pa.array(piece, pa.int64()), "n": numbers}))
        count += len(piece)
    whole = (
        pa.concat_tables(tables) if tables else pa.table({"t": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})
    )
    with pytest.MonkeyPatch.context() as patch:
        constants.replace(patch, SORTED_RUN=run_bytes, SORTED_ROWS=rows)
        order = TimeOrder("left", "x", TimeColumns("t", "t", "int"), 0)
        found = pa.concat_tables([whole.slice(0, 0), *order.sorted_on_disk(iter(tables))])
    assert found.to_pylist() == sorted(whole.to_pylist(), key=lambda row: (row["t"], row["n"]))


# -- what is left, and what is shown -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, sj.DataError, OSError])
def test_no_half_file_is_left(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        yield from sj.join(*args, **kwargs).to_batches()
        raise error("broken")

    monkeypatch.setattr("streamjoin.cli.joining.join_batches", breaks)
    files = write(LEFT, "left.csv"), write(RIGHT, "right.csv")
    Path("out.csv").write_text("what was there before")
    if error is MemoryError:
        with pytest.raises(MemoryError):
            run(*files, "-o", "out.csv")
    else:
        assert run(*files, "-o", "out.csv") == {KeyboardInterrupt: 130, sj.DataError: 2, OSError: 1}[error]
    assert Path("out.csv").read_text() == "what was there before"
    assert sorted(path.name for path in Path().iterdir()) == ["left.csv", "out.csv", "right.csv"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_is_quiet_and_leaves_no_file() -> None:
    write(table(3000, 1), "left.csv")
    command = [sys.executable, "-m", "streamjoin.cli", "join", "left.csv", "left.csv", "--on", "TRUE", "--time", "ts"]
    with subprocess.Popen(
        [*command, "--window", "3000", "-o", "out.csv"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "counts rows" in process.stderr.readline()  # from here on it joins
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()
    assert [path.name for path in Path().iterdir()] == ["left.csv"]


def test_a_closed_pipe_ends_quietly() -> None:
    write(table(3000, 1), "left.csv")
    command = [sys.executable, "-m", "streamjoin.cli", "join", "left.csv", "-", "--on", "TRUE", "--time", "ts"]
    with subprocess.Popen(
        [*command, "--window", "40 ticks", "-o", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=None,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(Path("left.csv").read_bytes())
        process.stdin.close()
        assert process.stdout.readline() == b"ts,k,n,ts_right,k_right,n_right\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("kind", ["csv", "ndjson", "arrow", "parquet"])
def test_results_to_a_pipe(
    kind: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(write(LEFT, "left.csv"), write(RIGHT, "right.csv"), "-o", "-", "--output-format", kind) == 0
    Path("piped").write_bytes(capfdbinary.readouterr().out)
    pipe_in(monkeypatch, "piped")
    assert rows_of(read_table("-", "left")) == wanted(LEFT, RIGHT)


def test_values_survive_text() -> None:
    values = {
        "ts": pa.array([1, 2], pa.timestamp("us")), "utc": pa.array([1_000_000, None], pa.timestamp("us", "UTC")),
        "ns": pa.array([1, 2], pa.timestamp("ns")), "day": pa.array([1, None], pa.date32()), "f": [1.5, None],
        "t": ["", None], "u": ['say "a,b"\n', "é"], "b": [True, None], "c": pa.array(["x", "y"]).dictionary_encode(),
        "v": pa.array(["x", None], pa.string_view()),
    }  # fmt: skip
    rows = pa.table(values)
    files = write(rows, "left.arrow"), write(rows.select(["ts"]), "right.parquet")
    for kind in ("csv", "ndjson"):
        assert run(*files, "-o", f"out.{kind}", on="TRUE", window=("1us",)) == 0
        out = read_table(f"out.{kind}", "out").select(rows.column_names).sort_by("ts")
        assert out.to_pylist() == rows.to_pylist(), kind
    nested = write(rows.append_column("l", pa.array([[1.5], []])), "nested.arrow")
    with pytest.MonkeyPatch.context():
        assert run(nested, files[1], "-o", "out.csv", on="TRUE", window=("1us",)) == 2
    assert run(nested, files[1], "-o", "out.ndjson", on="TRUE", window=("1us",)) == 0
    assert read_table("out.ndjson", "out").sort_by("ts")["l"].to_pylist() == [[1.5], []]


def test_limits(capsys: pytest.CaptureFixture[str]) -> None:
    files = write(LEFT, "left.csv"), write(RIGHT, "right.csv")
    count = len(wanted(LEFT, RIGHT))
    assert run(*files) == 0
    assert f"{count} rows, the first 20 of them shown" in capsys.readouterr().out
    assert run(*files, "--limit", "3") == 0
    assert "\n3 rows (--limit)\n" in capsys.readouterr().out
    assert run(*files, "--limit", str(count)) == 0
    assert f"\n{count} rows\n" in capsys.readouterr().out
    assert run(*files, "--limit", "7", "-o", "out.parquet") == 0
    out = parquet.read_table("out.parquet")
    assert out.num_rows == 7
    assert all(row in wanted(LEFT, RIGHT) for row in out.to_pylist())


def test_a_narrow_terminal_shows_whole_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    wide = LEFT.append_column("text", pa.array(["[red]x[/]" * 9] * 60))
    assert run(write(wide, "left.csv"), write(RIGHT, "right.csv"), "--limit", "2") == 0
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "not shown: text, ts_right, k_right, n_right" in out
    assert all(len(line) <= 60 for line in out.splitlines())


def test_explain_joins_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    files = write(LEFT, "left.csv"), write(RIGHT, "right.parquet")
    assert run(*files, "--explain", "-o", "out.csv") == 0
    out = capsys.readouterr().out
    assert "left.csv, csv: ts int64, k int64, n int64" in out
    assert "l.k in [r.k - 1, r.k + 1]" in out
    assert not Path("out.csv").exists()


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert run(write(LEFT, "left.csv"), write(RIGHT, "right.csv"), "-o", "out.csv") == 0
    assert f"{len(wanted(LEFT, RIGHT))} results" in terminal.getvalue()
    assert capsys.readouterr().out.startswith("out.csv: ")


@pytest.mark.parametrize("name", ["x.csv", "x.ndjson"])
def test_long_integers_stay_exact(name: str) -> None:
    def types(*numbers: str) -> tuple[str, list[Any]]:
        lines = ["k", *numbers] if name == "x.csv" else [f'{{"k": {number}}}' for number in numbers]
        rows = guessed("\n".join(lines).encode(), name)
        return str(rows.schema.field("k").type), rows["k"].to_pylist()

    assert types("18446744073709551615", "3") == ("uint64", [2**64 - 1, 3])
    assert types("-18446744073709551615", "3") == ("decimal128(38, 0)", [1 - 2**64, 3])
    assert types("18446744073709551615", "0.5") == ("double", [2.0**64, 0.5])
    assert types("9223372036854775807") == ("int64", [2**63 - 1])
    assert types("9" * 60)[0] == ("string" if name == "x.csv" else "double")
