"""Bytes per window tuple, of a join in a process of its own: this module, run with the settings as JSON."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import ArgumentError
from ...side import SIDES
from ..workloads import Streams
from .contestants import Joined
from .measure import measure

ROW_BYTES = 8


def memory(kind: str, window: int, index: str, batch: int, seed: int) -> dict[str, Any]:
    """Bytes per window tuple, of a join in a process of its own."""
    given = json.dumps({"kind": kind, "window": window, "index": index, "batch": batch, "seed": seed})
    done = subprocess.run([sys.executable, "-m", __name__, given], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArgumentError(f"memory: the process that measures it failed: {done.stderr.strip()[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _report_memory(given: str) -> None:
    arguments = json.loads(given)
    kind, window, batch, seed = (arguments[name] for name in ("kind", "window", "batch", "seed"))
    small = Streams.make(kind, 2_000, 8_000, seed)
    first = Joined(small, arguments["index"], 1, 1_000)  # so that kernels are loaded
    measure(first, small, 1_000, 3, 1.0)
    streams = Streams.make(kind, window, 2 * batch, seed)
    joined = Joined(streams, arguments["index"], 1, batch)
    before = _resident()
    joined.fill(streams)
    after = _resident()
    metrics = joined.join.metrics()
    count = sum(metrics[side]["window"] for side in SIDES)
    print(json.dumps({
        "kind": kind, "window": window, "index": metrics["index"], "window_tuples": count,
        "index_bytes": sum(metrics["indexes"][side]["bytes"] for side in SIDES) / count,
        "payload_bytes": sum(metrics[side]["payload_rows"] for side in SIDES) * ROW_BYTES / count,
        "rss_bytes": None if before is None or after is None else (after - before) / count, "raw_bytes": ROW_BYTES,
    }))  # fmt: skip


def _resident() -> int | None:
    """Bytes in memory, after unused ones were given back."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


if __name__ == "__main__":
    _report_memory(sys.argv[1])
