"""An empty cache directory: a join compiles in the background, and keeps its kernels for processes to come."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NODES = ("handshake", "low-latency-handshake", "splitjoin", "scalejoin")
ON = "l.s = r.s AND l.f BETWEEN r.f - 2 AND r.f + 2"
PROGRAM = """
import sys
import numpy as np, pyarrow as pa, streamjoin as sj
from numba.core import event
from streamjoin.compile.background import REHEARSALS, is_rehearsing

class Noted(event.Listener):
    compiled = []
    def on_start(self, event):
        if not is_rehearsing():
            self.compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

event.register("numba:compile", Noted())
rng = np.random.default_rng(0)

def rows(count, begin):
    numbers = rng.integers(0, 500, count)
    names = [f"n{n}" if n % 2 else f"a longer name {n}" for n in numbers]
    return pa.table({"t": np.arange(begin, begin + count), "k": numbers, "s": names, "f": rng.normal(size=count)})

schema = rows(1, 0).schema
options = {"on": ON, "window": sj.TimeWindow(800), "time": "t", "lateness": 9, "how": "left", "workers": 2}
for wait in (False, True):
    with sj.WindowJoin(schema, schema, algorithm=sys.argv[1], **options) as join:
        first = pa.concat_tables([join.poll()])
        begin = 0
        for number, count in enumerate((20, 3000, 64, 9000, 1, 5000)):
            if wait and number == 1:
                REHEARSALS.wait()
            table = rows(count, begin)
            if number == 3:
                table = table.take(pa.array(rng.permutation(count)))
            join.push_left(table)
            join.push_right(table)
            join.poll()
            begin += count - 3
        rest = join.finish()
        print(join.metrics()["out"] > 10_000, sorted(set(Noted.compiled)))
"""

LATER = """
import sys
import pyarrow as pa, streamjoin as sj
from streamjoin.compile import cache
t = pa.table({"k": [1, 2, 3]})
out = sj.join(t, t, on="l.k < r.k", window=5)
hits = 0
for name, module in list(sys.modules.items()):
    if name.startswith("streamjoin_kernel_"):
        hits += sum(module.scan.stats.cache_hits.values())
print(out.num_rows, hits, cache.cache_directory())
"""


def run(program: str, directory: Path, mode: str, *arguments: str) -> str:
    environment = os.environ | {"STREAMJOIN_COMPILE": mode, "STREAMJOIN_CACHE_DIR": str(directory)}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.parametrize("algorithm", ["auto", *NODES])
def test_nothing_is_compiled_while_a_join_waits(algorithm: str, directory: Path) -> None:
    """Only rehearsals compile, before they are over and after."""
    program = PROGRAM.replace("ON,", f"{ON!r},")
    assert run(program, directory, "background", algorithm).split("\n")[:2] == ["True []"] * 2


def test_kernels_are_kept_in_the_cache_directory(directory: Path) -> None:
    """A kernel that the directory lacks is compiled, and found by the next process."""
    rows, hits, kernels = run(LATER, directory, "first").split()
    assert (rows, hits) == ("3", "0")
    assert Path(kernels).parent == directory
    files = sorted(Path(kernels).rglob("*.nbi"))
    assert files
    written = [file.stat().st_mtime_ns for file in files]
    rows, hits, _ = run(LATER, directory, "first").split()
    assert rows == "3"
    assert int(hits) >= 1
    assert [file.stat().st_mtime_ns for file in files] == written
