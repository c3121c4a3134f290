"""A join keeps its kernels in the cache directory, and a second process finds them there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_CHILD = """
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


def test_kernels_are_kept_in_the_cache_directory(tmp_path: Path) -> None:
    def run(directory: Path) -> list[str]:
        environment = {**os.environ, "STREAMJOIN_CACHE_DIR": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", _CHILD], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    rows, hits, directory = run(tmp_path)
    assert (rows, hits) == ("3", "0")
    assert Path(directory).parent == tmp_path
    files = sorted(Path(directory).rglob("*.nbi"))
    assert files
    written = [file.stat().st_mtime_ns for file in files]
    rows, hits, _ = run(tmp_path)
    assert rows == "3"
    assert int(hits) >= 1
    assert [file.stat().st_mtime_ns for file in files] == written
