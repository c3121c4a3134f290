"""`streamjoin demo`: a whole pipeline on a local Spark, from two generators to files, with live figures.

Which trades were made at about the price of a quote of the same symbol at that moment? An equality and a band.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from urllib.parse import urlparse

import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

from .job import run as run_job

JOB = """
[left]
format = "trades"
rows_per_second = {rate}

[right]
format = "quotes"
rows_per_second = {rate}

[join]
on = "l.symbol = r.symbol AND l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01"
window = ["20 milliseconds", "20 milliseconds"]
time = "ts"
lateness = "1 second"

[sink]
format = "parquet"
path = "joined"
checkpoint = "checkpoint"

[trigger]
every = "1 second"
"""
EXAMPLES = 5


def run(seconds: float, rate: int) -> None:
    """Run the job for some time, then show a few of its rows. Ctrl-C ends it earlier and shows them too."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="streamjoin-demo-") as directory:
        path = Path(directory) / "demo.toml"
        path.write_text(JOB.format(rate=rate).lstrip())
        console.print(f"streamjoin run demo.toml --for {seconds:g}s, where demo.toml is:\n", markup=False)
        console.print(path.read_text(), markup=False)
        try:
            run_job(path, seconds=seconds)
        finally:
            _show(console, Path(directory) / "joined")


def _committed(directory: Path) -> list[str]:
    """The files of finished micro-batches, as the sink's log names them. Other files may be half written."""
    logs = [log for log in directory.glob("_spark_metadata/*") if log.name.removesuffix(".compact").isdigit()]
    lines = [line for log in logs for line in log.read_text().splitlines() if line.startswith("{")]
    return sorted({urlparse(json.loads(line)["path"]).path for line in lines})


def _show(console: Console, directory: Path) -> None:
    files = _committed(directory)
    if not files:
        console.print("no micro-batch was finished; give it longer, as in --for 60s")
        return
    joined = ds.dataset(files)
    table = Table("symbol", "trade at", "price", "quote at", "bid", "ask", title="some of the joined rows")
    for row in joined.head(EXAMPLES).to_pylist():
        at, quoted = (f"{row[name]:%H:%M:%S.%f}"[:-3] for name in ("ts", "ts_right"))
        table.add_row(row["symbol"], at, f"{row['price']:.2f}", quoted, f"{row['bid']:.2f}", f"{row['ask']:.2f}")
    console.print(table)
    console.print(f"{joined.count_rows():,} joined rows in {len(files):,} parquet files")
